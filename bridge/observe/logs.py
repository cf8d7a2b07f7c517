"""The log: one JSON object per line, with secrets masked everywhere in it."""

from __future__ import annotations

import logging
import os
import re
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import orjson

from bridge.settings.value import SHORTEST_SECRET

MASK = "[masked]"

#: Keys of Google, OpenAI, Anthropic and the bridge, Google's tokens, bearer tokens, keys in query strings.
_KEYS = re.compile(
    r"AIza[0-9A-Za-z_\-]{20,}|gbk_[0-9A-Za-z]{16,}|\bsk-[0-9A-Za-z_\-]{16,}"
    r"|\bya29\.[0-9A-Za-z._\-]{20,}|\b1//[0-9A-Za-z_\-]{20,}"
    r"|(?<=Bearer )[0-9A-Za-z._~+/\-]{8,}=*|(?<=[?&]key=)[^&\s\"]+"
)

#: Every match of the pattern contains one of these texts, and almost no line does. Searching for them takes a
#: tenth of the time that the pattern takes.
_SIGNS = ("AIza", "gbk_", "sk-", "ya29.", "1//", "Bearer ", "key=")

#: gunicorn quotes a request that it cannot parse, and the quote may contain a key. A header's name is kept.
_NOT_UNDERSTOOD = "Invalid request from "
_QUOTED = re.compile(r"""\A([^'"]*)(?!'[A-Z-]+'\Z)['"].*""", re.DOTALL)

_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    def __init__(self, secrets: Iterable[str] = (), node: str = "") -> None:
        super().__init__()
        self._node = {"node": node} if node else {}
        #: The longest first, because one secret may be part of another.
        long_enough = {secret for secret in secrets if len(secret) >= SHORTEST_SECRET}
        self._known = sorted(long_enough, key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
            **self._node,
        }
        line.update(self.fields(record))
        if record.exc_info and record.exc_info[1]:
            line["exception"] = self.exception(record.exc_info[1])
        return self.masked(_json(line))

    @staticmethod
    def fields(record: logging.LogRecord) -> dict[str, Any]:
        """The values that the caller gave with the message."""
        return {key: value for key, value in vars(record).items() if key not in _ORDINARY}

    @staticmethod
    def exception(error: BaseException) -> dict[str, Any]:
        """The error's type and its stack. The message is left out: it may quote the client's request."""
        frames = traceback.extract_tb(error.__traceback__)
        return {
            "type": type(error).__name__,
            "at": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-12:]],
        }

    def masked(self, text: str) -> str:
        for secret in self._known:
            text = text.replace(secret, MASK)
        return _KEYS.sub(MASK, text) if any(sign in text for sign in _SIGNS) else text


def _message(record: logging.LogRecord) -> str:
    message = record.getMessage()
    return _QUOTED.sub(rf"\1{MASK}", message) if message.startswith(_NOT_UNDERSTOOD) else message


def _json(line: dict[str, Any]) -> str:
    try:
        return orjson.dumps(line, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:  # nested too deeply for the encoder
        shown = {key: value for key, value in line.items() if isinstance(value, str | int | float)}
        return orjson.dumps({**shown, "left_out": sorted(line.keys() - shown.keys())}).decode()


def configuration(
    level: str, debug: bool, secrets: Iterable[str] = (), node: str = "", *, terminal: bool = False
) -> dict[str, Any]:
    """The configuration for `logging.config.dictConfig`: gunicorn and the bridge write to one stream.

    `terminal`: for people. gunicorn's lines about its start are then left out, since the bridge greets."""
    options: dict[str, Any] = {"secrets": tuple(secrets), "node": node}
    formatter: dict[str, Any] = {"()": JsonFormatter, **options}
    if terminal:
        from bridge.observe.terminal_log import TerminalFormatter  # a service does not need it

        formatter = {"()": TerminalFormatter, "colours": "NO_COLOR" not in os.environ, **options}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"bridge": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "bridge"}},
        "root": {"level": "WARNING", "handlers": ["stderr"]},
        "loggers": {
            "bridge": {"level": level.upper()},
            "bridge.trace": {"level": "INFO" if debug else "WARNING"},
            "gunicorn.error": {
                "level": "WARNING" if terminal else "INFO",
                "handlers": [],
                "propagate": True,
            },
        },
    }
