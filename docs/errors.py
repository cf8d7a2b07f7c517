"""Writes docs/ERRORS.md from the tree of errors and the tables of the protocols: `make diagrams`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bridge.errors import BridgeError, concrete_errors
from bridge.protocols import PROTOCOLS
from bridge.protocols.base import Protocol
from bridge.web.advice import advice

PAGE = Path(__file__).parent / "ERRORS.md"
#: One protocol for each format of errors.
FORMATS = {
    "openai_chat": "OpenAI's APIs",
    "anthropic_messages": "Anthropic Messages",
    "gemini_native": "Gemini and Interactions",
}

HEAD = """# Errors

Written by `make diagrams` from `bridge/errors.py`, the tables of the protocols, and the advice of the page
`/me`.

Every error has a kind. The log line of a request, the metrics and `gemini-bridge usage` name the kind; the
client gets the error in the format of its own vendor, with the status in the tables below. `x-request-id`
of the answer finds the request in the log. A client that obeys `x-should-retry` or `retry-after` does not
repeat what cannot help. [TROUBLESHOOTING.md](TROUBLESHOOTING.md) begins with the words that people see.
"""


def page() -> str:
    return "\n".join([HEAD, *_kinds(), *_formats()])


def _examples() -> dict[str, BridgeError]:
    """One error of each kind: the class that stands highest in the tree, as its children share its row."""
    classes = sorted(concrete_errors(), key=lambda each: (len(each.__mro__), each.__name__))
    found: dict[str, BridgeError] = {}
    for each in classes:
        found.setdefault(each.kind, each("…"))
    return found


def _kinds() -> Iterator[str]:
    yield "## What happened, and what to do\n"
    yield "| kind | status | retry | what happened | what to do |\n|---|---|---|---|---|"
    for kind, error in sorted(_examples().items(), key=lambda each: (each[1].status, each[0])):
        told = advice(kind)
        retry = "after a time" if error.retry_after_seconds else "yes" if error.retryable else "no"
        retry = "no" if not error.retryable or error.status in (400, 404, 405, 413, 426) else retry
        yield f"| `{kind}` | {error.status} | {retry} | {told.what} | {told.remedy} |"
    yield ""


def _formats() -> Iterator[str]:
    protocols = {each.name: each for each in PROTOCOLS}
    for name, title in FORMATS.items():
        yield f"## In the format of {title}\n\n| kind | status | names in the body |\n|---|---|---|"
        for kind, error in sorted(_examples().items()):
            yield f"| `{kind}` | {protocols[name].error_status(error)} | {_names(protocols[name], error)} |"
        yield ""


def _names(protocol: Protocol, error: BridgeError) -> str:
    body: dict[str, Any] = protocol.error_body(error, "")["error"]
    shown = ((field, body.get(field)) for field in ("type", "code", "status"))
    return ", ".join(f"{field} `{value}`" for field, value in shown if isinstance(value, str))


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
