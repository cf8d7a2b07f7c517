"""A tool's text result as the object that Gemini expects."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.gemini.tool_results import tool_response

PLAIN = "anything_else"


def error(text: str) -> dict[str, Any]:
    return {"status": "error", "error": text}


def shown(text: str) -> dict[str, Any]:
    return {"status": "success", "stdout": text}


@pytest.mark.parametrize(
    ("name", "output", "failed", "expected"),
    [
        (PLAIN, "fine", None, {"result": "fine"}),
        (PLAIN, "", None, {"result": ""}),
        (PLAIN, "fine", False, {"result": "fine"}),
        (PLAIN, "Error: no", None, {"result": "Error: no"}),
        (PLAIN, "no", True, {"error": "no"}),
        # read_file
        ("read_file", "a\nb", None, {"status": "success", "content": "a\nb", "bytes": 3}),
        ("read_file", "é🎈", None, {"status": "success", "content": "é🎈", "bytes": 6}),
        ("read_file", "", None, {"status": "success", "content": "", "bytes": 0}),
        ("read_file", "Error: no such file", None, error("Error: no such file")),
        ("read_file", "FileNotFoundError: a", None, error("FileNotFoundError: a")),
        ("read_file", "failed to open", None, error("failed to open")),
        (
            "read_file",
            "ErrorBoundary.tsx",
            None,
            {"status": "success", "content": "ErrorBoundary.tsx", "bytes": 17},
        ),
        ("read_file", "Error: text", False, {"status": "success", "content": "Error: text", "bytes": 11}),
        ("read_file", "text", True, error("text")),
        # shell
        ("shell", "a b", None, shown("a b")),
        ("shell", "Exit code: 0\nOutput:\na", None, shown("Exit code: 0\nOutput:\na")),
        ("shell", "Exit code: 1\nOutput:\na", None, error("Exit code: 1\nOutput:\na")),
        ("shell", "Process exited with code 127", None, error("Process exited with code 127")),
        ("shell", "exit_code: -9", None, error("exit_code: -9")),
        ("shell", "Took 1 s\nexit code 2", None, error("Took 1 s\nexit code 2")),
        ("shell", "the exit code 2 of yesterday", None, shown("the exit code 2 of yesterday")),
        ("shell", "fine", True, error("fine")),
        ("local_shell", "Exit code: 1", None, error("Exit code: 1")),
        ("local_shell", "a", None, shown("a")),
        # apply_patch, write_file
        ("apply_patch", "Done", None, {"status": "success", "summary": "Done"}),
        ("write_file", "Done", None, {"status": "success", "summary": "Done"}),
        ("write_file", "Error: full", None, error("Error: full")),
        ("apply_patch", "oh", True, error("oh")),
        # list_dir
        ("list_dir", "a\nb c\n", None, {"status": "success", "files": ["a", "b c"]}),
        ("list_dir", "", None, {"status": "success", "files": []}),
        ("list_dir", "\n", None, {"status": "success", "files": []}),
        ("list_dir", "no", True, error("no")),
    ],
)
def test_each_known_tool_output_is_structured(
    name: str, output: str, failed: bool | None, expected: dict[str, Any]
) -> None:
    assert tool_response(name, output, failed) == expected


@pytest.mark.parametrize("name", ["apply_patch", "write_file"])
@pytest.mark.parametrize("failed", [None, False, True])
def test_a_failed_patch_result_gets_advice(name: str, failed: bool | None) -> None:
    text = "apply_patch verification failed: Failed to find expected lines"
    response = tool_response(name, text, failed)
    assert response.pop("suggestion")
    assert response == error(text)


@pytest.mark.parametrize("name", [PLAIN, "shell", "read_file", "list_dir"])
@pytest.mark.parametrize("failed", [None, False])
def test_an_object_result_is_unchanged(name: str, failed: bool | None) -> None:
    assert tool_response(name, ' {"a": [1, {"b": null}]} ', failed) == {"a": [1, {"b": None}]}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ('{"code": 404}', {"error": {"code": 404}}),
        ('{"error": "gone"}', {"error": "gone"}),
        ('{"status": "error", "why": 1}', {"status": "error", "why": 1}),
    ],
)
def test_a_failed_object_result_is_marked_as_an_error(output: str, expected: dict[str, Any]) -> None:
    assert tool_response("shell", output, True) == expected


@pytest.mark.parametrize("deep", ['{"a": ' * 300 + "1" + "}" * 300, '{"a": ' + "[" * 900 + "]" * 900 + "}"])
def test_an_object_too_deep_to_be_sent_stays_text(deep: str) -> None:
    assert tool_response(PLAIN, deep) == {"result": deep}


def test_a_wide_object_is_not_too_deep() -> None:
    wide = {"rows": [{"n": [number]} for number in range(1000)]}
    assert tool_response(PLAIN, orjson.dumps(wide).decode()) == wide


@pytest.mark.parametrize("output", ["{", '{"a":}', "[1]", "1", "null", '"a"', "{} {}", '{"a": "\\ud800"}'])
def test_a_result_that_is_not_an_object_stays_text(output: str) -> None:
    assert tool_response(PLAIN, output) == {"result": output}


def test_a_file_name_ends_only_at_a_line_end() -> None:
    assert tool_response("list_dir", "a\u2028b\x0cc\r\nd")["files"] == ["a\u2028b\x0cc", "d"]


NAMES = st.sampled_from(
    [PLAIN, "read_file", "shell", "local_shell", "apply_patch", "write_file", "list_dir", ""]
)


@given(name=NAMES, output=st.text() | st.text('{}[]":,1 ').map("{".__add__), failed=st.none() | st.booleans())
def test_any_output_becomes_a_json_serialisable_object(name: str, output: str, failed: bool | None) -> None:
    response = tool_response(name, output, failed)
    assert orjson.loads(orjson.dumps(response)) == response


@given(
    name=NAMES.filter(lambda name: name != "list_dir"),
    output=st.text().filter(lambda text: not text.lstrip().startswith("{")),
    failed=st.none() | st.booleans(),
)
def test_no_text_of_the_output_is_lost(name: str, output: str, failed: bool | None) -> None:
    assert output in tool_response(name, output, failed).values()
