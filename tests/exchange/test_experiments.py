"""Experiments: who gets which arm, and what every part of the bridge says about it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from client_keys import ClientKeys
from experiment_rows import A_MODEL, B_MODEL, HALVES, settings_folder
from flask.testing import FlaskClient
from gunicorn_bridge import ROOT, clean_environment
from scripted_gemini import Reply, ScriptedGemini, sse, text_chunk
from waiting import eventually
from werkzeug.test import TestResponse

from bridge.access import key_cache
from bridge.exchange.experiment_arms import arm_of
from bridge.settings import load
from bridge.settings.experiments import Arm, Experiment
from bridge.settings.limits import Limits
from bridge.state.key_store import Rules
from bridge.state.sqlite.usage_store import SqliteUsageStore
from bridge.state.usage_store import ExperimentRequest
from bridge.web.app import create_app

HELLO = [{"role": "user", "content": "Hello"}]
HEADER = "x-bridge-experiment"
IDS = [f"conversation {number}" for number in range(100_000)]
TODAY = datetime.now(UTC).date()
YESTERDAY, TOMORROW = TODAY - timedelta(days=1), TODAY + timedelta(days=1)
FUNCTION = {"type": "function", "name": "look", "parameters": {"type": "object"}}

Make = Callable[..., FlaskClient]


def experiment(*weights: int, name: str = "x") -> Experiment:
    arms = tuple(Arm(letter, weight) for letter, weight in zip("abcd", weights, strict=False))
    return Experiment(name, ("sonnet",), "conversation", arms)


def dealt(found: Experiment) -> list[str]:
    return [arm_of(found, unit).name for unit in IDS]


# --- the split ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [(50, 50), (90, 10), (1, 1, 2), (9999, 1), (3, 5, 7, 11)])
def test_a_hundred_thousand_ids_are_split_as_the_weights_say(weights: tuple[int, ...]) -> None:
    counts = Counter(dealt(experiment(*weights)))
    for letter, weight in zip("abcd", weights, strict=False):
        assert counts[letter] / len(IDS) == pytest.approx(weight / sum(weights), abs=0.01)


def test_when_a_weight_grows_units_only_move_into_its_arm() -> None:
    before = dealt(experiment(95, 5))
    for percent in (10, 20, 35, 50, 80, 99):
        after = dealt(experiment(100 - percent, percent))
        moves = Counter((old, new) for old, new in zip(before, after, strict=True) if old != new)
        assert moves.keys() == {("a", "b")}
        before = after


@pytest.mark.parametrize("place", [0, 1, 2])
def test_of_several_arms_the_one_that_grows_keeps_all_its_units(place: int) -> None:
    weights = [40, 30, 30]
    before = dealt(experiment(*weights))
    weights[place] += 25
    after = dealt(experiment(*weights))
    letter = "abc"[place]
    assert not [old for old, new in zip(before, after, strict=True) if old == letter != new]
    assert after.count(letter) > before.count(letter)


def test_weight_moved_between_neighbours_leaves_the_third_arm_alone() -> None:
    before, after = dealt(experiment(60, 10, 30)), dealt(experiment(40, 30, 30))
    moves = Counter((old, new) for old, new in zip(before, after, strict=True) if old != new)
    assert moves.keys() == {("a", "b")}


def test_two_experiments_split_independently() -> None:
    first, second = dealt(experiment(1, 1)), dealt(experiment(1, 1, name="y"))
    both = Counter(zip(first, second, strict=True))
    assert all(count / len(IDS) == pytest.approx(0.25, abs=0.01) for count in both.values())


def test_another_process_deals_the_same_arms() -> None:
    """No seed of the process, such as that of `hash`, has a part in it."""
    code = (
        "from bridge.exchange.experiment_arms import arm_of\n"
        "from bridge.settings.experiments import Arm, Experiment\n"
        "x = Experiment('x', (), 'conversation', (Arm('a', 1), Arm('b', 1)))\n"
        "print(''.join(arm_of(x, f'conversation {n}').name for n in range(500)))"
    )
    environment = clean_environment()
    done = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**environment, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    ]
    assert done == ["".join(dealt(experiment(1, 1))[:500])] * 2


# --- in the application -------------------------------------------------------------------------------


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClientKeys:
    monkeypatch.setattr(key_cache, "BETWEEN_LOOKS", 0)
    (tmp_path / "state").mkdir(exist_ok=True)
    return ClientKeys(tmp_path / "state")


@pytest.fixture
def make(tmp_path: Path, gemini: ScriptedGemini, canary_key: str) -> Make:
    def made(rows: str = HALVES, models: str = "", **settings: str) -> FlaskClient:
        environ = {
            "BRIDGE_STATE_DIR": str(tmp_path / "state"),
            "GEMINI_API_KEY": canary_key,
            "GOOGLE_GEMINI_BASE_URL": gemini.address,
            "BRIDGE_UPSTREAM__ATTEMPTS": "1",
            **settings,
        }
        return create_app(load(settings_folder(tmp_path, rows, models), environ)).test_client()

    return made


def post(client: FlaskClient, path: str = "/v1/messages", **fields: Any) -> TestResponse:
    headers = fields.pop("headers", {})
    body = {"model": "sonnet", "messages": HELLO, "max_tokens": 1000, **fields}
    answer = client.post(path, json={name: value for name, value in body.items() if value}, headers=headers)
    answer.get_data()
    answer.close()  # ends the request, also that of a stream
    return answer


def session(name: object, **headers: str) -> dict[str, str]:
    return {"x-session-id": str(name), **headers}


def model_of(gemini: ScriptedGemini) -> str:
    return gemini.asked[-1].path.rpartition("/")[2].partition(":")[0]


def session_in(client: FlaskClient, arm: str, **headers: str) -> dict[str, str]:
    """Headers of a session in this arm."""
    for number in range(50):
        found = session(f"try {number}", **headers)
        if f"arm={arm}" in post(client, headers=found).headers[HEADER]:
            return found
    raise AssertionError(f"no session in arm {arm}")


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def rows(folder: Path, count: int, name: str = "halves") -> list[ExperimentRequest]:
    path = folder / "state" / "accounts.sqlite3"
    store = SqliteUsageStore(path, days=9, request_days=9, megabytes=9)
    found: list[ExperimentRequest] = []

    def written() -> bool:
        found[:] = store.experiment_requests(name, date(2000, 1, 1), date(2100, 1, 1))
        return len(found) >= count

    assert eventually(written)
    return found


def test_each_conversation_keeps_the_model_of_its_arm(make: Make, gemini: ScriptedGemini) -> None:
    client, models = make(), {"a": A_MODEL, "b": B_MODEL}
    seen = Counter[str]()
    for number in range(20):
        arms = set()
        for _ in range(2):
            answer = post(client, headers=session(number))
            arm = answer.headers[HEADER].removeprefix("halves; arm=")
            assert model_of(gemini) == answer.headers["x-bridge-model"] == models[arm]
            arms.add(arm)
        assert len(arms) == 1
        seen[arm] += 1
    assert min(seen["a"], seen["b"]) > 2


def test_all_protocols_agree_about_the_arm(make: Make, gemini: ScriptedGemini) -> None:
    client = make()
    for number in range(6):
        headers = session(number)
        found = {
            post(client, "/v1/messages", headers=headers).headers[HEADER],
            post(client, "/v1/chat/completions", headers=headers).headers[HEADER],
            post(
                client, "/v1/responses", input="Hi", messages=None, max_tokens=None, headers=headers
            ).headers[HEADER],
        }
        assert len(found) == 1


@pytest.mark.parametrize("model", [A_MODEL, f"models/{A_MODEL}", "gemini-flash-latest", "opus"])
def test_models_and_other_aliases_are_not_overridden(make: Make, gemini: ScriptedGemini, model: str) -> None:
    client = make(HALVES.replace('"claude-sonnet-*"', '"*flash*"'))
    for number in range(6):
        answer = post(client, model=model, headers=session(number))
        assert HEADER not in answer.headers
        assert model_of(gemini) != B_MODEL


def test_claude_codes_spelling_of_a_name_is_in_the_experiment(make: Make) -> None:
    answer = post(make(), model="claude-sonnet-4-5[1m]", headers=session(1))
    assert answer.headers[HEADER].startswith("halves; arm=")


def test_the_unit_key_ignores_conversations(make: Make, keys: ClientKeys) -> None:
    client = make(HALVES.replace("testers", 'unit = "key"\ntesters'))
    arms = {}
    for name in "abcdefghij":
        secret = bearer(keys.add(name, Rules()))
        found = {post(client, headers={**session(each), **secret}).headers[HEADER] for each in range(4)}
        assert len(found) == 1
        arms[name] = found.pop()
    assert len(set(arms.values())) == 2


def test_only_the_listed_keys_take_part(make: Make, keys: ClientKeys) -> None:
    client = make(HALVES.replace("testers", 'keys = ["team-*"]\nexcept_keys = ["team-x"]\ntesters'))
    for name, takes_part in (("team-y", True), ("team-x", False), ("guest", False)):
        answer = post(client, headers=bearer(keys.add(name, Rules())))
        assert (HEADER in answer.headers) is takes_part


@pytest.mark.parametrize(
    ("days", "runs"),
    [
        (f"from = {TODAY}\nuntil = {TOMORROW}\n", True),
        (f"from = {TOMORROW}\n", False),
        (f"until = {YESTERDAY}\n", False),
    ],
)
def test_outside_of_its_days_everybody_gets_the_alias(make: Make, gemini, days: str, runs: bool) -> None:
    client = make(HALVES.replace("testers", f"{days}testers"))
    for number in range(6):
        answer = post(client, headers=session(number))
        assert (HEADER in answer.headers) is runs
        assert runs or model_of(gemini) == "gemini-pro-latest"


def test_an_arm_without_a_model_keeps_the_alias(make: Make, gemini: ScriptedGemini) -> None:
    client = make(HALVES.replace(f'model = "{A_MODEL}"\n', ""))
    headers = session_in(client, "a")
    post(client, headers=headers)
    assert model_of(gemini) == "gemini-pro-latest"


def test_an_arm_can_set_the_thinking_level(make: Make, gemini: ScriptedGemini) -> None:
    client = make(HALVES.replace(f'"{B_MODEL}"', f'"{B_MODEL}"\nthinking = "low"'))
    thinking = {"type": "enabled", "budget_tokens": 20000}
    for arm, level in (("a", "HIGH"), ("b", "LOW")):
        headers = session_in(client, arm)
        post(client, thinking=thinking, max_tokens=30000, headers=headers)
        config = gemini.asked[-1].body["generationConfig"]["thinkingConfig"]
        assert (config["thinkingLevel"], config["includeThoughts"]) == (level, True)


def test_a_stored_response_is_continued_in_its_arm(make: Make, gemini: ScriptedGemini) -> None:
    client = make()
    for number in range(8):
        first = client.post("/v1/responses", json={"model": "sonnet", "input": f"Question {number}"})
        second = client.post(
            "/v1/responses",
            json={"model": "sonnet", "input": "More", "previous_response_id": first.json["id"]},
        )
        assert first.headers[HEADER] == second.headers[HEADER]


def test_a_background_answer_names_its_arm(make: Make) -> None:
    body = {"model": "sonnet", "input": "Hi", "background": True}
    answer = make().post("/v1/responses", json=body, headers=session(1))
    assert answer.headers[HEADER].startswith("halves; arm=")


# --- testers ------------------------------------------------------------------------------------------


def test_a_tester_chooses_the_arm(make: Make, gemini: ScriptedGemini, keys: ClientKeys, tmp_path) -> None:
    client, secret = make(), bearer(keys.add("tester", Rules()))
    for arm, model in (("a", A_MODEL), ("b", B_MODEL)):
        answer = post(client, headers={**secret, HEADER: f"halves; arm={arm}"})
        assert answer.headers[HEADER] == f"halves; arm={arm}; chosen"
        assert model_of(gemini) == model
        again = post(client, headers={**secret, HEADER: answer.headers[HEADER]})
        assert again.headers[HEADER] == answer.headers[HEADER], "the answer's own header works too"
    assert {row.assignment for row in rows(tmp_path, 4)} == {"chosen"}


def test_others_may_not_choose(make: Make, gemini: ScriptedGemini, keys: ClientKeys) -> None:
    client = make()
    headers = {**bearer(keys.add("ann", Rules())), HEADER: "halves; arm=b"}
    answer = post(client, "/v1/chat/completions", headers=headers)
    assert answer.status_code == 403
    assert HEADER in answer.json["error"]["message"]
    assert gemini.asked == []


@pytest.mark.parametrize(
    ("wish", "word"), [("halves; arm=c", "its arms are a, b"), ("thirds; arm=a", "no experiment")]
)
def test_a_wish_for_what_does_not_exist_is_refused(make: Make, keys, wish: str, word: str) -> None:
    answer = post(make(), headers={**bearer(keys.add("tester", Rules())), HEADER: wish})
    assert answer.status_code == 400
    assert word in answer.json["error"]["message"]
    assert HEADER in answer.json["error"]["message"]


def test_a_wish_does_not_concern_other_models(make: Make, keys: ClientKeys) -> None:
    headers = {**bearer(keys.add("tester", Rules())), HEADER: "halves; arm=b"}
    answer = post(make(), model="haiku", headers=headers)
    assert (answer.status_code, HEADER in answer.headers) == (200, False)


# --- requests that an arm cannot serve ----------------------------------------------------------------

IMAGES = HALVES.replace(f'model = "{A_MODEL}"', 'model = "gemini-3-pro-image"')


def test_a_request_that_one_arm_cannot_serve_is_marked_in_both(make: Make, gemini, tmp_path) -> None:
    """The control draws. The other arm does not, so its conversations go to the control."""
    client = make(IMAGES)
    in_a, in_b = session_in(client, "a"), session_in(client, "b")
    draws = {"tools": [{"type": "image_generation"}], "input": "Draw", "model": "sonnet"}
    gemini.asked.clear()
    for headers in (in_a, in_b):
        answer = client.post("/v1/responses", json=draws, headers=headers)
        assert answer.headers[HEADER] == "halves; arm=a; ineligible"
        assert model_of(gemini) == "gemini-3-pro-image"
    assert [row.assignment for row in rows(tmp_path, 4)][-2:] == ["ineligible"] * 2


def test_a_request_that_only_the_other_arm_could_serve_better_stays_where_it_is(make: Make, gemini) -> None:
    client = make(HALVES.replace(f'model = "{B_MODEL}"', 'model = "gemini-3-pro-image"'))
    in_a = session_in(client, "a")
    draws = {"tools": [{"type": "image_generation"}], "input": "Draw", "model": "sonnet"}
    answer = client.post("/v1/responses", json=draws, headers=in_a)
    assert answer.headers[HEADER] == "halves; arm=a; ineligible"
    assert model_of(gemini) == A_MODEL


def test_search_beside_functions_needs_a_model_that_has_both(make: Make, gemini: ScriptedGemini) -> None:
    client = make(HALVES.replace(B_MODEL, "gemini-flash-latest"))
    in_b = session_in(client, "b")
    body = {"model": "sonnet", "input": "Search", "tools": [FUNCTION, {"type": "web_search"}]}
    answer = client.post("/v1/responses", json=body, headers=in_b)
    assert answer.headers[HEADER] == "halves; arm=a; ineligible"
    assert model_of(gemini) == A_MODEL


def test_a_key_that_may_not_use_the_model_of_an_arm_gets_the_control(make: Make, gemini, keys) -> None:
    client = make()
    secret = bearer(keys.add("flash-only", Rules(models=("*flash*",))))
    for number in range(8):
        answer = post(client, headers={**session(number), **secret})
        assert (answer.status_code, answer.headers[HEADER]) == (200, "halves; arm=a; ineligible")
        assert model_of(gemini) == A_MODEL


def test_a_key_that_may_not_use_any_arm_gets_what_the_alias_means(make: Make, gemini, keys) -> None:
    client = make()
    secret = bearer(keys.add("latest-only", Rules(models=("gemini-pro-latest",))))
    answer = post(client, headers=secret)
    assert answer.status_code == 200
    assert model_of(gemini) == "gemini-pro-latest"
    other = bearer(keys.add("gemma", Rules(models=("gemma-*",))))
    refused = post(client, "/v1/chat/completions", headers=other)
    assert refused.status_code == 403


def test_under_a_cost_limit_an_arm_without_a_price_goes_to_the_control(make: Make, gemini, keys) -> None:
    client = make(HALVES.replace(B_MODEL, "gemini-99-unpriced"))
    secret = bearer(keys.add("limited", Rules(limits=Limits(cost_per_day=5.0))))
    for number in range(8):
        answer = post(client, headers={**session(number), **secret})
        assert (answer.status_code, answer.headers[HEADER]) == (200, "halves; arm=a; ineligible")


def test_the_thinking_of_native_clients_is_left_alone(make: Make, gemini: ScriptedGemini) -> None:
    client = make(HALVES.replace(f'"{B_MODEL}"', f'"{B_MODEL}"\nthinking = "low"'))
    body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    for number in range(8):
        answer = client.post("/v1beta/models/sonnet:generateContent", json=body, headers=session(number))
        assert answer.headers[HEADER] == "halves; arm=a; ineligible"


# --- token counts and lists ---------------------------------------------------------------------------


def test_tokens_are_counted_by_the_model_of_the_arm(make: Make, gemini: ScriptedGemini) -> None:
    client = make()
    for arm, model in (("a", A_MODEL), ("b", B_MODEL)):
        headers = session_in(client, arm)
        gemini.will_say(Reply([b'{"totalTokens": 7}'], headers={"content-type": "application/json"}))
        answer = post(client, "/v1/messages/count_tokens", max_tokens=None, headers=headers)
        assert answer.json == {"input_tokens": 7}
        assert answer.headers[HEADER] == f"halves; arm={arm}"
        assert gemini.asked[-1].path.endswith(f"{model}:countTokens")


def test_without_a_session_the_count_belongs_to_the_same_conversation(make: Make, gemini) -> None:
    client = make()
    for number in range(8):
        messages = [{"role": "user", "content": f"Question {number}"}]
        asked = post(client, messages=messages)
        gemini.will_say(Reply([b'{"totalTokens": 7}'], headers={"content-type": "application/json"}))
        counted = post(client, "/v1/messages/count_tokens", max_tokens=None, messages=messages)
        assert counted.headers[HEADER] == asked.headers[HEADER]


SMALL = '[[model]]\nmatch = ["gemini-3.1-pro*"]\nfamily = "gemini-3"\nwindow = 100000\n'


def window(client: FlaskClient, headers: dict[str, str]) -> int:
    shown = client.get("/v1beta/models/sonnet", headers=headers)
    (listed,) = [
        each
        for each in client.get("/v1beta/models?pageSize=1000", headers=headers).json["models"]
        if each["name"] == "models/sonnet"
    ]
    assert shown.json["inputTokenLimit"] == listed["inputTokenLimit"]
    return int(listed["inputTokenLimit"])


def test_the_lists_describe_the_model_of_the_arm(make: Make, gemini: ScriptedGemini) -> None:
    gemini.will_list({"models": []})
    client = make(models=SMALL)
    assert window(client, session_in(client, "a")) == 1_048_576
    assert window(client, session_in(client, "b")) == 100_000
    assert window(client, {}) == 100_000, "true in both arms"
    catalog = client.get("/connect/codex-models.json").json
    assert "100000" in str(next(each for each in catalog["models"] if each["slug"] == "sonnet"))


def test_the_lists_describe_the_control_to_a_key_that_may_not_use_the_arm(make: Make, gemini, keys) -> None:
    gemini.will_list({"models": []})
    client = make(HALVES.replace("testers", 'unit = "key"\ntesters'), SMALL)
    for number in range(6):
        secret = bearer(keys.add(f"flash-{number}", Rules(models=("*flash*",))))
        assert window(client, secret) == 1_048_576


# --- what is recorded ---------------------------------------------------------------------------------


def test_a_request_is_recorded_with_its_arm(make: Make, gemini, tmp_path, caplog) -> None:
    client = make(BRIDGE_UPSTREAM__ATTEMPTS="2")
    caplog.set_level("INFO", "bridge.access")
    gemini.will_say(
        sse({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "index": 0}]}),
        sse(text_chunk("Hi", "STOP", promptTokenCount=100, cachedContentTokenCount=40, totalTokenCount=100)),
    )
    answer = post(client, headers=session(1), stream=True)
    arm = answer.headers[HEADER].removeprefix("halves; arm=")
    (row,) = rows(tmp_path, 1)
    assert (row.arm, row.assignment, row.malformed, row.fallbacks) == (arm, "", 1, 0)
    assert (row.input, row.cached, row.failed) == (60, 40, False)
    assert 0 < row.first_byte <= row.seconds
    assert len(row.conversation) == 32
    record = next(each for each in caplog.records if each.message == "request")
    assert (record.experiment, record.arm, record.conversation) == ("halves", arm, row.conversation)
    assert not hasattr(record, "assignment")


def test_a_fallback_counts_for_the_arm(make: Make, gemini: ScriptedGemini, tmp_path: Path) -> None:
    models = f'[[model]]\nmatch = ["{A_MODEL}"]\nfamily = "gemini-3"\nfallbacks = ["gemini-3.6-flash"]\n'
    rows_ = HALVES.replace('weight = 50\nmodel = "gemini-3.1-pro-preview"', 'weight = 1\nmodel = "gemma-9"')
    client = make(rows_.replace("weight = 50", "weight = 9999"), models)
    gemini.will_say(Reply(status=503))
    answer = post(client, headers=session(1))
    assert (answer.headers[HEADER], model_of(gemini)) == ("halves; arm=a", "gemini-3.6-flash")
    (row,) = rows(tmp_path, 1)
    assert (row.arm, row.fallbacks) == ("a", 1)


def test_metrics_have_the_labels_of_the_file_alone(make: Make, keys: ClientKeys) -> None:
    client = make()
    for number in range(10):
        post(client, headers=session(number))
    page = client.get("/metrics").get_data(as_text=True)
    labels = [
        line.partition("}")[0]
        for line in page.splitlines()
        if line.startswith("gemini_bridge_experiment_requests_total{")
    ]
    assert sorted(labels) == [
        'gemini_bridge_experiment_requests_total{arm="a",experiment="halves",outcome="completed"',
        'gemini_bridge_experiment_requests_total{arm="b",experiment="halves",outcome="completed"',
    ]


# --- without experiments ------------------------------------------------------------------------------


def test_without_experiments_nothing_is_imported_and_the_header_means_nothing(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom bridge.web.app import create_app\nclient = create_app().test_client()\n"
        "body = {'model': 'sonnet', 'messages': [{'role': 'user', 'content': 'Hi'}]}\n"
        "answer = client.post('/v1/chat/completions', json=body, headers={'x-bridge-experiment': 'x'})\n"
        "assert answer.status_code == 200 and 'x-bridge-experiment' not in answer.headers\n"
        "assert client.get('/v1/models').status_code == 200\n"
        "print([name for name in sys.modules if 'experiment' in name or 'shadow' in name])"
    )
    environment = clean_environment() | {"BRIDGE_STATE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
