"""The log as people read it at a terminal: a line for each request, and what else is worth knowing."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from bridge.observe.logs import JsonFormatter

RED, GREEN, YELLOW, DIM, PLAIN = "\033[31m", "\033[32m", "\033[33m", "\033[2m", "\033[0m"
_LEVELS = {"WARNING": YELLOW, "ERROR": RED, "CRITICAL": RED}
_OUTCOMES = {"client_left": "client left", "lost": "lost"}


class TerminalFormatter(JsonFormatter):
    """Secrets are masked as in the JSON log."""

    def __init__(self, *, colours: bool, **options: Any) -> None:
        super().__init__(**options)
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        at = self._in(DIM, f"{datetime.fromtimestamp(record.created):%H:%M:%S}")
        fields = self.fields(record)
        told = self._request(fields) if record.getMessage() == "request" else self._event(record, fields)
        return self.masked(f"{at}  {told}")

    def _request(self, fields: dict[str, Any]) -> str:
        status = fields.get("status", 0)
        colour = GREEN if status < 400 else YELLOW if status < 500 else RED
        if fields.get("outcome") != "completed":
            colour = RED if colour == GREEN else colour
        parts = [
            f"{fields.get('method', ''):<6} {fields.get('path', '')}",
            self._in(colour, str(status)),
            _models(fields),
            _tokens(fields),
            f"{fields.get('duration_ms', 0):,.0f} ms",
            _trouble(fields),
            self._in(DIM, fields["key"]) if "key" in fields else "",
        ]
        return "  ".join(filter(None, parts))

    def _event(self, record: logging.LogRecord, fields: dict[str, Any]) -> str:
        """Any other line: the message, and the values that belong to it."""
        colour = _LEVELS.get(record.levelname, "")
        shown = [f"{name}={value}" for name, value in fields.items() if not isinstance(value, dict)]
        lines = [f"{self._in(colour, record.levelname.lower())}  {record.getMessage()}", *shown]
        told = "  ".join(lines)
        if record.exc_info and record.exc_info[1]:
            stack = self.exception(record.exc_info[1])
            told = "\n    ".join([told, stack["type"], *stack["at"]])
        return told

    def _in(self, colour: str, text: str) -> str:
        return f"{colour}{text}{PLAIN}" if self._colours and colour else text


def _models(fields: dict[str, Any]) -> str:
    """The client's name of the model, and the upstream's if it differs."""
    names = [fields.get("model"), fields.get("upstream_model")]
    return " → ".join(dict.fromkeys(str(name) for name in names if name))


def _tokens(fields: dict[str, Any]) -> str:
    if "input_tokens" not in fields:
        return ""
    read, cached = fields["input_tokens"], fields.get("cached_tokens", 0)
    share = f" ({cached / read:.0%} cached)" if cached and read else ""
    return f"{read:,}{share} → {fields.get('output_tokens', 0):,} tokens"


def _trouble(fields: dict[str, Any]) -> str:
    """Why the request did not end well."""
    outcome = _OUTCOMES.get(fields.get("outcome", ""), "")
    error = fields.get("rule") or fields.get("error") or ""
    return ": ".join(filter(None, [outcome or error, fields.get("reason", "")]))
