"""The log for people: one line for each request, with everything that matters about it."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest

from bridge.observe.terminal_log import TerminalFormatter

KEY = "AIzaSyA-canary-canary-canary-canary-0"


def line(message: str = "request", *, colours: bool = False, level: int = logging.INFO, **fields: Any) -> str:
    error = fields.pop("exc_info", None)
    record = logging.LogRecord("bridge.access", level, "file", 1, message, (), error)
    vars(record).update(fields)
    told = TerminalFormatter(colours=colours, secrets=["a-long-secret"]).format(record)
    time, _, rest = told.partition("  ")
    assert len(time.removeprefix("\033[2m").removesuffix("\033[0m")) == 8
    return rest


WHOLE: dict[str, Any] = {
    "method": "POST",
    "path": "/v1/messages",
    "status": 200,
    "outcome": "completed",
    "model": "claude-sonnet",
    "upstream_model": "gemini-pro",
    "duration_ms": 2345.6,
    "input_tokens": 12000,
    "cached_tokens": 9000,
    "output_tokens": 340,
    "key": "alice",
}


def test_a_request_is_one_line():
    begin = "POST   /v1/messages  200  claude-sonnet → gemini-pro"
    assert line(**WHOLE) == f"{begin}  12,000 (75% cached) → 340 tokens  2,346 ms  alice"


def test_what_is_not_known_is_left_out():
    assert line(method="GET", path="/v1/models", status=200, outcome="completed", duration_ms=0.4) == (
        "GET    /v1/models  200  0 ms"
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"outcome": "failed", "error": "rate_limited", "status": 429}, "rate_limited"),
        ({"outcome": "failed", "error": "limited", "rule": "key.streams", "status": 429}, "key.streams"),
        ({"outcome": "client_left"}, "client left"),
        ({"outcome": "failed", "error": "timeout", "reason": "no answer"}, "timeout: no answer"),
    ],
)
def test_a_failure_says_why(fields, told):
    assert f"  {told}  alice" in line(**{**WHOLE, **fields})


@pytest.mark.parametrize(
    ("status", "outcome", "colour"),
    [(200, "completed", 32), (404, "failed", 33), (502, "failed", 31), (200, "client_left", 31)],
)
def test_the_colour_of_the_status(status, outcome, colour):
    assert f"\033[{colour}m{status}\033[0m" in line(
        **{**WHOLE, "status": status, "outcome": outcome}, colours=True
    )


def test_another_line_has_its_values():
    assert line("keys read", keys=2, level=logging.WARNING) == "warning  keys read  keys=2"


def test_an_exception_shows_its_place_and_not_its_message():
    try:
        raise ValueError("the prompt of somebody")
    except ValueError:
        told = line("unexpected failure", level=logging.ERROR, exc_info=sys.exc_info())
    assert "ValueError" in told
    assert "test_terminal_log.py" in told
    assert "prompt" not in told


def test_secrets_are_masked():
    told = line("odd", key=KEY, other="a-long-secret")
    assert "canary" not in told
    assert "a-long-secret" not in told
