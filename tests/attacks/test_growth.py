"""Work grows with what is sent, and no faster: no loop over it holds another one over the same.

Whatever a client or an upstream can make longer is made longer here, in every protocol. What it costs is
counted in lines of the bridge's own code: twice as much may cost twice as much, with room for a logarithm.
What one line may do to something long is measured in CPU time, with more room.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from types import CodeType

import pytest
from gunicorn_bridge import ROOT

from bridge.protocols import PROTOCOLS
from tests.attacks.growing_answers import ANSWERS, answer_cases
from tests.attacks.growing_pieces import PIECES
from tests.attacks.growing_requests import DIMENSIONS, request_cases
from tests.attacks.measuring import Case, Lines, cpu_seconds
from tests.attacks.speakers import PROTOCOL_CLIENTS

CASES: dict[str, Case] = request_cases() | answer_cases() | PIECES

#: Sizes to begin with. A limit that is reached in between looks like growth; at the other size it does not.
SIZES = (10, 80)
#: How much more the second doubling may cost than the first: 2 if it is linear, 4 if it is quadratic.
MOST_OF_A_DOUBLING = 2.2
#: Lines that may be run once more when some limit is reached.
SLACK = 40

#: Dimensions in which a single line may work on something long.
LONG = (
    "messages",
    "content_parts",
    "text_length",
    "text_of_beginnings",
    "parallel_calls",
    "results_in_another_order",
    "results_of_empty_lines",
    "long_results",
    "schema_references_in_many_spellings",
    "signed_thoughts",
    "layout of texts",
    "chunks of text",
    "thoughts and texts by turns",
    "calls in one chunk",
    "log probabilities",
    "sources of many texts",
    "chunks that quote the key",
)
TIMED = [name for name in CASES if name.endswith(LONG) or name in PIECES]
#: What is worked on in the first place, and eight times as much: of whole requests, and of pieces.
WHOLE, PIECE = (100, 800), (250, 2000)
#: Eight times as much may take so many times as long; 64 times would be quadratic.
MOST_TIMES = 20
#: Of what is measured in time: a busy machine makes the one measurement longer than the other.
ATTEMPTS = 4


def grows_linearly(case: Case, size: int) -> tuple[bool, list[int]]:
    costs = [Lines().count(case(size * factor)) for factor in (1, 2, 4)]
    first, second = costs[1] - costs[0], costs[2] - costs[1]
    return second <= MOST_OF_A_DOUBLING * max(first, 0) + SLACK, costs


@pytest.mark.parametrize("name", CASES)
def test_lines_grow_with_the_size(name: str) -> None:
    measured = []
    for size in SIZES:
        linear, costs = grows_linearly(CASES[name], size)
        if linear:
            return
        measured.append(costs)
    pytest.fail(f"lines for n, 2n, 4n from n = {SIZES}: {measured}")


@pytest.mark.parametrize("name", TIMED)
def test_time_grows_with_the_size(name: str) -> None:
    times = []
    for _ in range(ATTEMPTS):
        small, large = (cpu_seconds(CASES[name](size)) for size in (PIECE if name in PIECES else WHOLE))
        if large <= MOST_TIMES * small + 0.001:
            return
        times.append(f"{small * 1000:.2f} ms, and {large * 1000:.2f} ms for eight times as much")
    pytest.fail("; ".join(times))


def test_nothing_is_taken_from_the_front_of_a_list() -> None:
    """It moves all that is behind, so quickly that no measurement of a test's length would tell."""
    taken = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in looked_at()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "pop"
        if [each.value for each in node.args if isinstance(each, ast.Constant)] == [0]
    ]
    assert taken == []


# --- that nothing is forgotten -----------------------------------------------------------------------


def test_every_protocol_grows_in_every_way() -> None:
    assert set(PROTOCOL_CLIENTS) == {protocol.name for protocol in PROTOCOLS}
    for protocol in PROTOCOLS:
        assert {f"{protocol.name}: {name}" for name in DIMENSIONS} <= set(CASES)
        assert {f"{protocol.name} tells {name}" for name in ANSWERS} <= set(CASES)


#: Folders and files whose loops go over what clients and upstreams send.
LOOKED_AT = (
    "protocols",
    "gemini",
    "guards",
    "conversation.py",
    "turn.py",
    "upstream/compression.py",
    "upstream/framing.py",
    "upstream/head.py",
    "upstream/masking.py",
    "upstream/payloads.py",
    "upstream/sse_decoder.py",
)

#: Loops that need not be run: none of them goes over something that a client or an upstream can make long.
BOUNDED = {
    "gemini/generation.py:_drop_fields": "over the names of the sampling fields",
    "guards/tool_policy.py:__init__": "over the operator's rules",
    "protocols/anthropic_messages/models.py:_for_the_picker": "over the operator's models",
    "protocols/anthropic_messages/models.py:list_models": "over the operator's models",
    "protocols/base.py:path_prefixes": "over the paths of a protocol",
    "protocols/base.py:all_paths": "over the paths of a protocol",
    "protocols/fields.py:whole": "over two bounds",
    "protocols/gemini_interactions/contents.py:_audio": "over two fields",
    "protocols/gemini_interactions/contents.py:_video": "over three fields",
    "protocols/gemini_interactions/tools.py:_builtin": "makes a reader, whose own loops are run",
    "protocols/gemini_native/__init__.py:_paths": "over the paths of a protocol",
    "protocols/google_models.py:list_models": "over the operator's models",
    "protocols/google_models.py:show_model": "over the operator's models",
    "protocols/openai_models.py:list_models": "over the operator's models",
    "protocols/openai_models.py:show_model": "over the operator's models",
    "protocols/openai_responses/dialects.py:_compile_patterns": "over the operator's patterns",
    "protocols/openai_responses/items.py:_file": "over two fields",
}

LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def looked_at() -> list[Path]:
    places = [ROOT / "bridge" / name for name in LOOKED_AT]
    return [path for place in places for path in ([place] if place.is_file() else place.rglob("*.py"))]


def functions_with_loops(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and any(isinstance(each, LOOPS) for each in ast.walk(node)):
            found.add(f"{path.relative_to(ROOT / 'bridge')}:{node.name}")
    return found


@cache
def functions_run() -> frozenset[str]:
    lines = Lines()
    for case in CASES.values():
        lines.count(case(6))
    return frozenset(map(_named, lines.functions))


def _named(code: CodeType) -> str:
    return f"{Path(code.co_filename).relative_to(ROOT / 'bridge')}:{code.co_name}"


def test_every_function_with_a_loop_is_run_by_one_of_these() -> None:
    """A new loop over what is sent needs a case here, or a reason in `BOUNDED`."""
    looping = {name for path in looked_at() for name in functions_with_loops(path)}
    assert sorted(looping - functions_run() - set(BOUNDED)) == []
    assert sorted(set(BOUNDED) - looping) == [], "no longer there"
