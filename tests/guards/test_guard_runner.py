"""The guard runner: order, modes and counters; it does not change accepted calls."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.gemini.types import (
    MODEL,
    USER,
    Candidate,
    Chunk,
    Content,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    InlineData,
    OtherData,
    Part,
    Tool,
    Usage,
)
from bridge.guards import GUARDS, guard_runner
from bridge.guards.base import Blocked, Guard, ShortCircuit
from bridge.guards.guard_runner import ActiveGuards, GuardRunner
from bridge.settings import PROJECT
from bridge.settings.guards import GuardModes, GuardSettings, PolicyRule, load_guards

ANY_SPEED = settings(deadline=None)
DELIVERED = load_guards(PROJECT / "config" / "guards.toml")
NAMES = tuple(GuardModes.__dataclass_fields__)
OFF = GuardModes(**dict.fromkeys(NAMES, "off"))
SPLIT = FunctionCall("shell", {"command": "ls -F"}, "c1")
GATED = FunctionCall("shell", {"command": ["cat", "secret-name", "|", "wc"]}, "c2")
FINE = FunctionCall("Bash", {"command": "a | b > c"}, "c3")


def with_modes(**modes: str) -> GuardSettings:
    return replace(DELIVERED, modes=replace(OFF, **modes))


def watching(guard_settings: GuardSettings = DELIVERED) -> GuardRunner:
    return GuardRunner(ActiveGuards(guard_settings), "request-7")


def chunk(*parts: Part | FunctionCall | str, **fields: Any) -> Chunk:
    wrapped = tuple(part if isinstance(part, Part) else Part(part) for part in parts)
    return Chunk((Candidate(Content(MODEL, wrapped), index=0),), **fields)


def parts_of(answer: Chunk) -> tuple[Part, ...]:
    return answer.candidates[0].parts


def request_with(result: Any, times: int = 1) -> GenerateRequest:
    turns = [Content(USER, (Part("Please."),))]
    for number in range(times):
        turns += [
            Content(MODEL, (Part(FunctionCall("f", {"a": "argument-x"}, f"c{number}")),)),
            Content(USER, (Part(FunctionResponse("f", {"result": result}, f"c{number}")),)),
        ]
    return GenerateRequest("gemini-test", tuple(turns))


LOOPING = request_with("an error", times=2)
LONG = request_with("line\n" * 20_000)


def guard_lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == guard_runner.__name__]


@pytest.fixture(autouse=True)
def _all_lines(caplog):
    caplog.set_level(logging.DEBUG)


# --- the list ----------------------------------------------------------------------------------------


def test_every_guard_is_listed_once_and_has_one_mode():
    names = [guard.name for guard in GUARDS]
    assert sorted(names) == sorted(NAMES)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("tool_policy", "shell_arguments"),
        ("tool_policy", "apply_patch"),
        ("shell_arguments", "shell_gate"),
        ("apply_patch", "shell_gate"),
        ("loop", "large_output"),
        ("loop", "secrets"),
    ],
)
def test_the_order_of_the_guards(earlier, later):
    names = [guard.name for guard in GUARDS]
    assert names.index(earlier) < names.index(later)


def test_all_guards_but_one_enforce_by_default_without_rules():
    modes = {name: getattr(DELIVERED.modes, name) for name in NAMES}
    assert modes == {**dict.fromkeys(NAMES, "enforce"), "secrets": "off"}
    assert DELIVERED.rules == ()


def test_a_command_is_checked_after_it_was_split():
    """The command is split first; then one of its words is a pipe."""
    piped = FunctionCall("shell", {"command": "cat x | wc"})
    watched = watching()
    (left,) = parts_of(watched.feed(chunk(piped)))
    assert isinstance(left.data, str)
    assert watched.notes == {"guard.shell_arguments.changed": 1, "guard.shell_gate.held_back": 1}


def test_a_rule_sees_the_call_as_the_model_made_it():
    rule = PolicyRule("shell", "deny", '"command":"ls -F"')
    watched = watching(replace(DELIVERED, rules=(rule,)))
    (left,) = parts_of(watched.feed(chunk(SPLIT)))
    assert isinstance(left.data, str)
    assert watched.notes == {"guard.tool_policy.held_back": 1}


def test_a_loop_is_found_in_results_as_the_client_sent_them():
    """The results differ only in their truncated part."""
    turns = list(LONG.contents[:1])
    for number in range(3):
        output = "a" * 60_000 + str(number) + "a" * 60_000
        turns += [
            Content(MODEL, (Part(FunctionCall("f", {}, f"c{number}")),)),
            Content(USER, (Part(FunctionResponse("f", {"result": output}, f"c{number}")),)),
        ]
    watched = watching()
    assert isinstance(watched.request(GenerateRequest("m", tuple(turns))), GenerateRequest)
    assert watched.notes == {"guard.large_output.changed": 1}


# --- modes -------------------------------------------------------------------------------------------

ON_CALLS = [
    ("shell_arguments", SPLIT, "changed"),
    ("shell_gate", GATED, "held_back"),
    ("tool_policy", FINE, "held_back"),
    (
        "apply_patch",
        FunctionCall("apply_patch", {"input": "+*** Begin Patch\n*** Delete File: a\n*** End Patch\n"}),
        "changed",
    ),
]
ON_REQUESTS = [
    ("loop", LOOPING, "answered"),
    ("large_output", LONG, "changed"),
    ("secrets", request_with("AKIA" + "ABCD2345" * 2), "changed"),
]
RULED = (PolicyRule("Bash", "deny"),)
CALLS = pytest.mark.parametrize(("name", "call", "action"), ON_CALLS, ids=[row[0] for row in ON_CALLS])
REQUESTS = pytest.mark.parametrize(
    ("name", "request_", "action"), ON_REQUESTS, ids=[row[0] for row in ON_REQUESTS]
)


def in_mode(name: str, mode: str) -> GuardRunner:
    return watching(replace(with_modes(**{name: mode}), rules=RULED))


@CALLS
def test_a_disabled_call_guard_does_nothing(name, call, action, caplog):
    watched = in_mode(name, "off")
    given_chunk = chunk(call)
    assert watched.feed(given_chunk) == given_chunk
    assert not watched.notes
    assert not guard_lines(caplog)


@CALLS
def test_a_call_guard_in_shadow_mode_counts_and_changes_nothing(name, call, action, caplog):
    watched = in_mode(name, "shadow")
    (left,) = parts_of(watched.feed(chunk(call)))
    assert left.data is call
    assert watched.notes == {f"guard.{name}.{action}.shadow": 1}
    (line,) = guard_lines(caplog)
    assert (line.guard, line.action, line.mode, line.tool) == (name, action, "shadow", call.name)


@CALLS
def test_an_enforcing_call_guard_acts_and_counts(name, call, action, caplog):
    watched = in_mode(name, "enforce")
    (left,) = parts_of(watched.feed(chunk(call)))
    assert isinstance(left.data, str if action == "held_back" else FunctionCall)
    assert left.data != call
    assert watched.notes == {f"guard.{name}.{action}": 1}
    (line,) = guard_lines(caplog)
    assert (line.guard, line.action, line.mode, line.tool) == (name, action, "enforce", call.name)


@REQUESTS
def test_a_disabled_request_guard_does_nothing(name, request_, action, caplog):
    watched = in_mode(name, "off")
    assert watched.request(request_) is request_
    assert not watched.notes
    assert not guard_lines(caplog)


@REQUESTS
def test_a_request_guard_in_shadow_mode_counts_and_changes_nothing(name, request_, action, caplog):
    watched = in_mode(name, "shadow")
    assert watched.request(request_) is request_
    assert watched.notes == {f"guard.{name}.{action}.shadow": 1}
    (line,) = guard_lines(caplog)
    assert (line.guard, line.action, line.mode) == (name, action, "shadow")


@REQUESTS
def test_an_enforcing_request_guard_acts_and_counts(name, request_, action, caplog):
    watched = in_mode(name, "enforce")
    left = watched.request(request_)
    assert isinstance(left, ShortCircuit if action == "answered" else GenerateRequest)
    assert left != request_
    assert watched.notes == {f"guard.{name}.{action}": 1}
    (line,) = guard_lines(caplog)
    assert (line.guard, line.action, line.mode) == (name, action, "enforce")


def test_guards_after_one_in_shadow_mode_still_run():
    mixed = replace(DELIVERED, modes=replace(DELIVERED.modes, loop="shadow"))
    watched = watching(mixed)
    looping = replace(LOOPING, contents=(*LONG.contents, *LOOPING.contents[1:]))
    left = watched.request(looping)
    assert isinstance(left, GenerateRequest)
    assert watched.notes == {"guard.loop.answered.shadow": 1, "guard.large_output.changed": 1}


def test_every_line_has_the_request_and_none_has_arguments(caplog):
    watched = watching()
    watched.feed(chunk(GATED, SPLIT))
    watched.request(LOOPING)
    lines = guard_lines(caplog)
    assert len(lines) == 3
    assert {line.request_id for line in lines} == {"request-7"}
    told = repr([vars(line) for line in lines])
    assert not [word for word in ("secret-name", "argument-x", "ls -F", "an error") if word in told]


# --- guards that fail --------------------------------------------------------------------------------


class Broken(Guard):
    name = "tool_policy"

    def on_call(self, call: FunctionCall) -> FunctionCall | Blocked:
        raise ValueError(call.args)

    def on_request(self, request: GenerateRequest) -> GenerateRequest | ShortCircuit:
        raise RecursionError


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
def test_a_guard_that_raises_is_counted_and_the_call_passes(monkeypatch, caplog, mode):
    monkeypatch.setattr(guard_runner, "GUARDS", (Broken,))
    watched = watching(with_modes(tool_policy=mode))
    (left,) = parts_of(watched.feed(chunk(GATED)))
    assert left.data is GATED
    assert watched.notes == {"guard.tool_policy.failed": 1}
    (line,) = guard_lines(caplog)
    assert (line.request_id, line.guard, line.levelname) == ("request-7", "tool_policy", "ERROR")


def test_a_guard_that_raises_is_counted_and_the_request_passes(monkeypatch, caplog):
    monkeypatch.setattr(guard_runner, "GUARDS", (Broken,))
    watched = watching(with_modes(tool_policy="enforce"))
    assert watched.request(LOOPING) is LOOPING
    assert watched.notes == {"guard.tool_policy.failed": 1}
    assert len(guard_lines(caplog)) == 1


def test_guards_after_one_that_raises_still_run(monkeypatch):
    monkeypatch.setattr(guard_runner, "GUARDS", (Broken, *GUARDS[1:]))
    watched = watching()
    (left,) = parts_of(watched.feed(chunk(SPLIT)))
    assert left.data.args == {"command": ["ls", "-F"]}
    assert watched.notes == {"guard.tool_policy.failed": 1, "guard.shell_arguments.changed": 1}


# --- changed parts -----------------------------------------------------------------------------------


def test_signature_and_unknown_fields_of_a_rewritten_part_are_kept():
    call = replace(SPLIT, args={"command": "ls -F", "workdir": "/x"}, extra={"future": 1})
    part = Part(call, thought=True, signature="signed", extra={"more": [2]})
    (left,) = parts_of(watching().feed(chunk(part)))
    expected = replace(call, args={"command": ["ls", "-F"], "workdir": "/x"})
    assert left == replace(part, data=expected)


def test_a_blocked_call_becomes_text_at_its_position():
    before, behind = Part("First."), Part("Last.", thought=True)
    first, gated, fine, last = parts_of(
        watching().feed(chunk(before, Part(GATED, signature="s"), FINE, behind))
    )
    assert (first, last) == (before, behind)
    assert gated.data.lstrip().startswith("[System]")
    assert gated.signature is None
    assert fine.data is FINE


def test_other_fields_of_a_chunk_are_kept():
    given_chunk = Chunk(
        (
            Candidate(Content(MODEL, (Part(GATED),), {"a": 1}), "STOP", 0, {"b": 2}),
            Candidate(Content(MODEL, (Part("Other."),)), None, 1),
            Candidate(None, "STOP", 2),
        ),
        Usage({"promptTokenCount": 3}),
        {"c": 4},
        {"d": 5},
    )
    left = watching().feed(given_chunk)
    (held,) = parts_of(left)
    first = given_chunk.candidates[0]
    expected = replace(first, content=replace(first.content, parts=(held,)))
    assert left == replace(given_chunk, candidates=(expected, *given_chunk.candidates[1:]))


def test_the_calls_of_every_candidate_are_checked():
    one = Candidate(Content(MODEL, (Part(GATED),)), index=0)
    watched = watching()
    left = watched.feed(Chunk((one, replace(one, index=1))))
    assert [type(candidate.parts[0].data) for candidate in left.candidates] == [str, str]
    assert watched.notes == {"guard.shell_gate.held_back": 2}


WITHOUT_CALLS = {
    "nothing": Chunk(),
    "no content": Chunk((Candidate(None, "STOP"),)),
    "text": chunk("Hello.", usage=Usage({"a": 1})),
    "thoughts and media": chunk(Part("Hm.", thought=True), Part(InlineData("image/png", "aGk="))),
    "the future": chunk(Part(OtherData("toolCall", {"name": "shell"}))),
    "a result": chunk(Part(FunctionResponse("shell", {"command": "ls -F"}))),
}


@pytest.mark.parametrize("given_chunk", WITHOUT_CALLS.values(), ids=WITHOUT_CALLS)
def test_a_chunk_without_calls_is_the_same_object(given_chunk):
    watched = watching()
    assert watched.feed(given_chunk) is given_chunk
    assert not watched.notes


ODD_ARGS: dict[str, Any] = {
    "no arguments": None,
    "empty arguments": {},
    "no command": {"cmd": "a | b"},
    "nothing as command": {"command": None},
    "a number": {"command": 7},
    "numbers in an array": {"command": [1, None, 2.5, ["x"], {"a": 1}]},
    "an empty array": {"command": []},
    "an object": {"command": {"a": "b | c"}},
    "an open quote": {"command": "echo 'never closed"},
    "blanks": {"command": "  \n"},
    "half a character": {"command": ["\ud800"]},
    "megabytes": {"command": ["echo", "x" * 3_000_000]},
    "other languages": {"command": ["écrire", "文件"]},
}


NO_DOUBT = {"half a character", "megabytes", "other languages"}


@pytest.mark.parametrize("name", ODD_ARGS)
@pytest.mark.parametrize("tool", ["shell", "local_shell", "exec_command", "Bash", "apply_patch"])
def test_unparsed_arguments_pass_unchanged_and_are_counted(tool, name):
    call = FunctionCall(tool, ODD_ARGS[name], "c1")
    watched = watching(replace(DELIVERED, rules=(PolicyRule("*", "deny", "never to be found"),)))
    (left,) = parts_of(watched.feed(chunk(call)))
    assert left.data is call
    doubted = tool in ("shell", "local_shell") and name not in NO_DOUBT
    assert watched.notes == ({"guard.shell_arguments.unsure": 1} if doubted else {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.text(max_size=4)
SAFE_WORDS = st.lists(st.text(alphabet="abc -_/.é'\"", min_size=1, max_size=6), min_size=2, max_size=4)
UNMINDED = st.one_of(
    st.builds(FunctionCall, st.text(max_size=8).map("mcp__x__{}".format), st.dictionaries(KEYS, JSON)),
    st.builds(FunctionCall, st.sampled_from(["Bash", "exec_command"]), st.fixed_dictionaries({"n": JSON})),
    st.builds(FunctionCall, st.just("shell"), st.fixed_dictionaries({"command": SAFE_WORDS, "n": JSON})),
    st.builds(
        lambda script: FunctionCall("shell", {"command": ["bash", "-lc", script]}), st.text(max_size=20)
    ),
)
PARTS = st.builds(
    Part,
    st.one_of(UNMINDED, st.text(max_size=5)),
    st.booleans(),
    st.none() | st.text(max_size=4),
    st.dictionaries(KEYS, JSON, max_size=2),
)


@ANY_SPEED
@given(st.lists(PARTS, max_size=6))
def test_accepted_parts_are_the_same_objects(parts):
    given_chunk = chunk(*parts)
    watched = watching()
    left = watched.feed(given_chunk)
    assert left == given_chunk
    assert all(new is old for new, old in zip(parts_of(left), parts, strict=True))
    assert not watched.notes


ANY_CALL = st.one_of(UNMINDED, st.sampled_from([SPLIT, GATED, FINE, *(row[1] for row in ON_CALLS)]))


@ANY_SPEED
@given(st.lists(st.one_of(ANY_CALL, st.text(max_size=5)), max_size=8))
def test_parts_keep_their_order(datas):
    marked = [Part(data, extra={"at": at}) for at, data in enumerate(datas)]
    left = parts_of(watching().feed(chunk(*marked)))
    assert len(left) == len(marked)
    for new, old in zip(left, marked, strict=True):
        held_back = isinstance(old.data, FunctionCall) and isinstance(new.data, str)
        assert held_back or (new.extra == old.extra and type(new.data) is type(old.data))


@ANY_SPEED
@given(st.lists(st.one_of(ANY_CALL, st.text(max_size=5)), max_size=8))
def test_guarding_is_idempotent(datas):
    once = watching().feed(chunk(*datas))
    again = watching()
    assert again.feed(once) == once
    assert not again.notes


def test_a_call_that_needs_approval_passes_and_is_counted() -> None:
    asking = replace(GuardSettings(), rules=(PolicyRule("f", "ask"),))
    guarding = GuardRunner(ActiveGuards(asking), "req_1")
    call = FunctionCall("f", {"a": 1}, "c1")
    chunk = Chunk((Candidate(Content("model", (Part(call, signature="s"),))),))
    assert guarding.feed(chunk) == chunk
    assert guarding.notes == {"guard.tool_policy.asked": 1}


def declaring(command: Any) -> GenerateRequest:
    function = FunctionDeclaration("shell", schema={"type": "object", "properties": {"command": command}})
    turn = Content(USER, (Part("Please."),))
    return GenerateRequest("gemini-x", (turn,), tools=(Tool((function,)),))


def test_a_shell_that_declares_a_string_gets_a_string():
    guarded = watching()
    asked = declaring({"type": "string"})
    assert guarded.request(asked) is asked
    script = FunctionCall("shell", {"command": "ls -F | wc"}, "c1")
    assert [part.data for part in parts_of(guarded.feed(chunk(script)))] == [script]
    assert not guarded.notes


@pytest.mark.parametrize("command", [{"type": "array"}, {}, {"type": ["array"]}, "string"])
def test_with_any_other_declaration_a_shell_gets_words(command):
    guarded = watching()
    guarded.request(declaring(command))
    (part,) = parts_of(guarded.feed(chunk(SPLIT)))
    assert part.data.args == {"command": ["ls", "-F"]}


def test_googles_schema_format_is_read_too():
    schema = {"type": "OBJECT", "properties": {"command": {"type": "STRING"}}}
    function = FunctionDeclaration("shell", extra={"parameters": schema})
    guarded = watching()
    guarded.request(GenerateRequest("gemini-x", (Content(USER, (Part("Go."),)),), tools=(Tool((function,)),)))
    assert parts_of(guarded.feed(chunk(SPLIT)))[0].data is SPLIT
