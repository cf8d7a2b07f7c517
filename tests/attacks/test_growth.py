"""The cost of a request or an answer grows linearly with its size.

Each test enlarges one dimension that a client or an upstream controls, in every protocol. The cost is the
number of executed lines of the bridge's own code: double input may cost double, with room for a logarithm.
The cost of a single line on long input is measured in CPU time, with more tolerance.
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
from tests.attacks.growing_contexts import CONTEXTS
from tests.attacks.growing_pieces import PIECES
from tests.attacks.growing_requests import DIMENSIONS, request_cases
from tests.attacks.growing_texts import TEXT_CASES
from tests.attacks.growing_upstreams import UPSTREAM_CASES
from tests.attacks.measuring import Case, Lines, cpu_seconds
from tests.attacks.protocol_writers import PROTOCOL_CLIENTS

CASES: dict[str, Case] = request_cases() | answer_cases() | PIECES | CONTEXTS | TEXT_CASES | UPSTREAM_CASES

#: Start sizes. A limit that takes effect between two sizes looks like growth, but only at one start size.
SIZES = (10, 80)
#: The allowed cost ratio of the second doubling to the first: 2 is linear, 4 is quadratic.
MOST_OF_A_DOUBLING = 2.2
#: Additional lines that may run when a limit takes effect.
SLACK = 40

#: Dimensions in which a single line may work on long input.
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
SMALL = PIECES | CONTEXTS | TEXT_CASES | UPSTREAM_CASES
TIMED = [name for name in CASES if name.endswith(LONG) or name in SMALL]
#: The start sizes for whole requests and for pieces; the second measurement uses eight times as much.
WHOLE, PIECE = (100, 800), (250, 2000)
#: The allowed time ratio for eight times the input; 64 would be quadratic.
MOST_TIMES = 20
#: Attempts at a time measurement, as a busy machine distorts single measurements.
ATTEMPTS = 4


def grows_linearly(case: Case, size: int) -> tuple[bool, list[int]]:
    costs = [Lines().count(case(size * factor)) for factor in (1, 2, 4)]
    first, second = costs[1] - costs[0], costs[2] - costs[1]
    return second <= MOST_OF_A_DOUBLING * max(first, 0) + SLACK, costs


@pytest.mark.parametrize("name", CASES)
def test_executed_lines_grow_linearly(name: str) -> None:
    measured = []
    for size in SIZES:
        linear, costs = grows_linearly(CASES[name], size)
        if linear:
            return
        measured.append(costs)
    pytest.fail(f"lines for n, 2n, 4n from n = {SIZES}: {measured}")


@pytest.mark.parametrize("name", TIMED)
def test_cpu_time_grows_linearly(name: str) -> None:
    times = []
    for _ in range(ATTEMPTS):
        small, large = (cpu_seconds(CASES[name](size)) for size in (PIECE if name in SMALL else WHOLE))
        if large <= MOST_TIMES * small + 0.001:
            return
        times.append(f"{small * 1000:.2f} ms, and {large * 1000:.2f} ms for eight times as much")
    pytest.fail("; ".join(times))


def test_no_code_removes_the_first_item_of_a_list() -> None:
    """It moves all later items, too quickly for a short measurement to show."""
    taken = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in looked_at()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "pop"
        if [each.value for each in node.args if isinstance(each, ast.Constant)] == [0]
    ]
    assert taken == []


# --- completeness ------------------------------------------------------------------------------------


def test_every_protocol_has_every_growth_case() -> None:
    assert set(PROTOCOL_CLIENTS) == {protocol.name for protocol in PROTOCOLS}
    for protocol in PROTOCOLS:
        assert {f"{protocol.name}: {name}" for name in DIMENSIONS} <= set(CASES)
        assert {f"{protocol.name} tells {name}" for name in ANSWERS} <= set(CASES)


#: Folders and files with loops over input from clients and upstreams.
LOOKED_AT = (
    "protocols",
    "gemini",
    "context",
    "guards",
    "text_tools",
    "upstream/masking.py",
    "upstream/ollama",
    "upstream/openai",
    "upstream/overflow.py",
    "upstream/payloads.py",
    "upstream/transport/body_framing.py",
    "upstream/transport/compression.py",
    "upstream/transport/response_head.py",
    "upstream/transport/sse_decoder.py",
)

#: Loops that need no case: a client or an upstream cannot make their input long.
BOUNDED = {
    "context/editor_blocks.py:__init__": "over the operator's blocks",
    "protocols/anthropic_messages/context_management.py:applied_edits": "over the steps that exist",
    "protocols/anthropic_messages/computer_toolset.py:toolset_functions": "over the actions of the toolset",
    "protocols/anthropic_messages/executed_code.py:read_result": "over two fields",
    "protocols/anthropic_messages/models.py:_capabilities": "over three levels",
    "protocols/gemini_interactions/replay.py:_ending": "over two events",
    "protocols/openai_responses/conversations.py:_metadata": "over sixteen entries",
    "protocols/openai_responses/hosted.py:image_kind": "over the known kinds",
    "protocols/openai_responses/mcp_tools.py:_approval": "over two fields",
    "protocols/openai_responses/mcp_tools.py:_place": "over three fields",
    "protocols/openai_responses/replay.py:_ending": "over the last events of a dialect",
    "protocols/openai_responses/tools.py:_code_interpreter": "over the settings of the tool",
    "protocols/openai_responses/tools.py:_image_generation": "over the settings of the tool",
    "gemini/generation.py:_drop_fields": "over the names of the sampling fields",
    "gemini/media_types.py:accepted_type": "over the known kinds of media",
    "text_tools/openers.py:by_first_character": "over the openers",
    "text_tools/words.py:match_words": "over the words of an opener",
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
    "upstream/ollama/__init__.py:_tags": "over the models of the server",
    "upstream/ollama/__init__.py:models": "over at most MOST_MODELS models",
    "upstream/openai/__init__.py:_asked_for": "over the tools, once",
    "upstream/openai/__init__.py:_counted": "over two calls",
    "upstream/openai/__init__.py:models": "over the operator's models",
    "upstream/openai/call_ids.py:nine_characters": "over nine characters",
    "upstream/openai/counting.py:_prompt": "over three fields",
    "upstream/openai/counting.py:window_of": "over a few fields",
    "upstream/openai/errors.py:_status": "over four fields",
    "upstream/openai/dialects.py:_without": "over the fields of a dialect, at the import",
}

LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def looked_at() -> list[Path]:
    places = [ROOT / "bridge" / name for name in LOOKED_AT]
    assert all(place.exists() for place in places)
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


def test_every_function_with_a_loop_has_a_growth_case() -> None:
    """A new loop over external input needs a case here, or a reason in `BOUNDED`."""
    looping = {name for path in looked_at() for name in functions_with_loops(path)}
    assert sorted(looping - functions_run() - set(BOUNDED)) == []
    assert sorted(set(BOUNDED) - looping) == [], "no longer there"
