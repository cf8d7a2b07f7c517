"""No documented field of a request is dropped in silence, except where it is listed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from request_fields import PROBES, Outcome, fields_of, walked

LISTS = tomllib.loads((Path(__file__).parent / "request_fields.toml").read_text())
LINES = [line for entry in (*LISTS["ignored"], *LISTS.get("unhandled", [])) for line in entry["fields"]]
HARMLESS = [line for entry in LISTS["harmless"] for line in entry["values"]]
PATTERNS = {line: re.compile(".*".join(map(re.escape, line.split("*")))) for line in (*LINES, *HARMLESS)}

pytestmark = pytest.mark.timeout(600)  # thousands of requests, on a busy machine


@pytest.fixture(scope="module")
def dropped():
    """Each with the lines that list it."""
    fields = {
        f"{name.removesuffix(' beta')} {field.path}"
        for name in PROBES
        for field in fields_of(name)
        if field.outcome in (Outcome.SILENT, Outcome.REPEATED)
    }
    return {field: [line for line in LINES if PATTERNS[line].fullmatch(field)] for field in fields}


@pytest.mark.parametrize("name", PROBES)
def test_the_request_that_fields_are_put_into_is_converted(name):
    assert PROBES[name].convert(PROBES[name].body).error is None


@pytest.mark.parametrize(
    ("name", "path", "outcome"),
    [
        ("responses", "temperature", Outcome.MAPPED),
        ("responses", "tools[](function).name", Outcome.MAPPED),
        ("responses", "input[](message).content[](input_image).image_url", Outcome.MAPPED),
        ("responses", "parallel_tool_calls", Outcome.LOST),
        ("responses", "input[](mcp_call)", Outcome.MAPPED),
        ("responses", "prompt", Outcome.REFUSED),
        ("responses", "metadata", Outcome.REPEATED),
        ("chat", "logit_bias", Outcome.REFUSED),
        ("chat", "stream_options.include_usage", Outcome.MAPPED),
        ("chat", "user", Outcome.SILENT),
        ("completions", "suffix", Outcome.MAPPED),
        ("completions", "best_of", Outcome.REFUSED),
        ("completions", "stream_options.include_obfuscation", Outcome.LOST),
        ("embeddings", "dimensions", Outcome.MAPPED),
        ("embeddings", "encoding_format", Outcome.MAPPED),
        ("messages", "messages[](user).content[](document).title", Outcome.MAPPED),
        ("messages", "messages[](assistant).content[](redacted_thinking)", Outcome.LOST),
        ("messages beta", "mcp_servers[](url)", Outcome.MAPPED),
    ],
)
def test_what_becomes_of_a_field_is_found_out(name, path, outcome):
    found = {field.path: field.outcome for field in fields_of(name)}
    assert found[path] is outcome


def test_nothing_is_dropped_in_silence_that_is_not_listed(dropped):
    assert sorted(field for field, lines in dropped.items() if not lines) == []


def test_what_is_listed_is_still_dropped(dropped):
    used = {line for lines in dropped.values() for line in lines}
    assert sorted(set(LINES) - used) == [], "handled now, or misspelt: remove it from the list"


def test_a_field_is_listed_for_one_reason(dropped):
    assert {field: lines for field, lines in dropped.items() if len(lines) > 1} == {}


def test_no_value_of_an_enumeration_is_dropped_in_silence_that_is_not_listed():
    values = {
        f"{name.removesuffix(' beta')} {value}" for name in PROBES for value in walked(name).silent_values
    }
    matched = {value: [line for line in HARMLESS if PATTERNS[line].fullmatch(value)] for value in values}
    assert sorted(value for value, lines in matched.items() if len(lines) != 1) == []
    assert sorted(set(HARMLESS) - {line for lines in matched.values() for line in lines}) == []


def test_the_lists_say_why_and_where():
    assert all(entry["reason"].endswith(".") for entry in LISTS["harmless"])
    assert all(entry["reason"].endswith(".") for entry in LISTS["ignored"])
    assert all(entry["fix"].startswith("bridge/") for entry in LISTS.get("unhandled", []))
