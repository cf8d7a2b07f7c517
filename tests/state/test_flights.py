"""The store of flights: what is kept, for how long, under which rules, and who looked."""

from __future__ import annotations

from bridge.state.flight_store import FlightQuery, FlightRow, FlightRule, Look

MEGABYTE = 1024 * 1024


def flight(number: int, clock, **fields) -> FlightRow:
    usual = FlightRow(
        f"flight_{number}",
        clock.now,
        f"req_{number}",
        "alice",
        "curl",
        "c1",
        "openai_chat",
        "gpt-5",
        200,
        "completed",
        "",
        "shape",
        "all",
        "node",
        4,
    )
    return usual._replace(**fields)


def rule(clock, **fields) -> FlightRule:
    usual = FlightRule("rule_1", clock.now, clock.now + 3600, "alice", None, None, False, "masked", "root")
    return usual._replace(**fields)


def test_a_flight_is_found_by_its_id_and_by_the_id_of_its_request(backend, clock):
    row = flight(1, clock)
    backend.flights(clock).keep(row, b"data")
    assert backend.flights(clock).find("flight_1") == (row, b"data")
    assert backend.flights(clock).find("req_1") == (row, b"data")
    assert backend.flights(clock).find("req_2") is None


def test_a_request_id_that_was_used_twice_finds_the_newer_flight(backend, clock):
    store = backend.flights(clock)
    store.keep(flight(1, clock, request="same"), b"old")
    clock.now += 1
    store.keep(flight(2, clock, request="same"), b"new")
    found = store.find("same")
    assert found is not None
    assert found[1] == b"new"


def test_a_request_id_that_is_the_id_of_another_flight_does_not_hide_that_flight(backend, clock):
    store = backend.flights(clock)
    store.keep(flight(1, clock), b"mine")
    clock.now += 1
    store.keep(flight(2, clock, request="flight_1"), b"other")
    found = store.find("flight_1")
    assert found is not None
    assert found[1] == b"mine"


def test_flights_are_listed_by_their_properties_with_the_newest_first(backend, clock):
    store = backend.flights(clock)
    rows = []
    for number, fields in enumerate(
        [{}, {"key": "bob"}, {"model": "o3"}, {"outcome": "failed"}, {"conversation": "c2"}]
    ):
        clock.now += 1
        rows.append(flight(number, clock, **fields))
        store.keep(rows[-1], b"data")
    assert store.newest(FlightQuery()) == rows[::-1]
    assert store.newest(FlightQuery(limit=2)) == [rows[4], rows[3]]
    assert store.newest(FlightQuery(key="bob")) == [rows[1]]
    assert store.newest(FlightQuery(model="o3")) == [rows[2]]
    assert store.newest(FlightQuery(failed=True)) == [rows[3]]
    assert store.newest(FlightQuery(conversation="c2")) == [rows[4]]


def test_the_flight_before_is_of_the_same_conversation_key_and_level(backend, clock):
    store = backend.flights(clock)
    rows = []
    for number, fields in enumerate([{}, {"conversation": "c2"}, {"key": "bob"}, {"level": "full"}, {}]):
        clock.now += 1
        rows.append(flight(number, clock, **fields))
        store.keep(rows[-1], b"%d" % number)
    assert store.before(rows[4]) == (rows[0], b"0")
    assert store.before(rows[0]) is None


def test_a_flight_expires(backend, clock):
    store = backend.flights(clock, days=3)
    row = flight(1, clock)
    store.keep(row, b"data")
    clock.now += 3 * 86400 - 1
    assert store.newest(FlightQuery()) == [row]
    clock.now += 2
    assert store.newest(FlightQuery()) == []
    assert store.find("flight_1") is None
    assert store.before(flight(2, clock)) is None
    store.tidy()
    clock.now -= 10
    assert store.newest(FlightQuery()) == []


def test_a_full_store_deletes_the_oldest_flights(backend, clock):
    store = backend.flights(clock, megabytes=1)
    for number in range(30):
        clock.now += 1
        store.keep(flight(number, clock, bytes=MEGABYTE // 10), b"x" * (MEGABYTE // 10))
    assert [row.id for row in store.newest(FlightQuery())] == [f"flight_{n}" for n in range(29, 19, -1)]


def test_a_rule_is_valid_until_it_ends_or_is_ended(backend, clock):
    store = backend.flights(clock)
    first, second = (
        rule(clock),
        rule(clock, id="rule_2", made=clock.now + 1, ends=clock.now + 60, header=True),
    )
    store.add_rule(first)
    store.add_rule(second)
    assert backend.flights(clock).rules() == [first, second]
    clock.now += 60
    assert store.rules() == [first]
    assert store.end_rule("rule_1")
    assert not store.end_rule("rule_1")
    assert not store.end_rule("rule_2")
    assert backend.flights(clock).rules() == []
    store.tidy()
    clock.now -= 60
    assert store.rules() == []


def test_looks_are_listed_with_the_newest_first_and_outlive_flights(backend, clock):
    store = backend.flights(clock)
    looks = [Look(clock.now + n, "root", "show", f"flight_{n}") for n in range(3)]
    for each in looks:
        store.note_look(each)
    clock.now += 1000 * 86400
    store.tidy()
    assert backend.flights(clock).looks() == looks[::-1]
    assert store.looks(limit=1) == [looks[2]]


def test_texts_of_clients_are_kept_as_they_are(backend, clock):
    row = flight(1, clock, model="'; DROP TABLE flight; -- <script>", client="☃")
    store = backend.flights(clock)
    store.keep(row, b"\x00\xff")
    assert store.find("flight_1") == (row, b"\x00\xff")
