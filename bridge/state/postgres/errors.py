"""PostgreSQL's errors in the terms of the interface, with what the administrator has to change."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from bridge.state.errors import DatabaseUnfit, StorageBusy, StorageError, StorageUnavailable

UPGRADE = "run `gemini-bridge state upgrade`"

#: What is wrong, by the code of the error or its first two characters.
_UNFIT = {
    "28": "PostgreSQL refuses the user or the password: correct them in BRIDGE_STATE_URL",
    "3D000": "there is no such database: create it, or correct its name in BRIDGE_STATE_URL",
    "3F000": f"the tables of the bridge are missing: {UPGRADE}",
    "42P01": f"the tables of the bridge are missing or old: {UPGRADE}",
    "42703": f"the tables of the bridge are old: {UPGRADE}",
    "42883": f"the functions of the bridge are missing or old: {UPGRADE}",
    "42501": "the user of BRIDGE_STATE_URL may not use the bridge's tables: "
    "grant it the rights, or name the user who ran `gemini-bridge state upgrade`",
}
#: libpq reports a refused connection without a code. A server with another language gets the general text.
#: The first sign that a message contains counts.
_CODES_OF_MESSAGES = {
    "too many connections for": "53300",
    "too many clients": "53300",
    "remaining connection slots": "53300",
    "permission denied for database": "28000",
    "password authentication failed": "28P01",
    "no password supplied": "28P01",
    "no pg_hba.conf entry": "28000",
    'role "': "28000",
    'database "': "3D000",
}
#: The server works, and this statement was in the way of others, or waited too long for a lock.
_BUSY = frozenset({"40001", "40P01", "55P03"})
#: The server works, and only this statement failed: it is one of those, was cancelled, or needs disk space
#: that the server does not have. Reading works on a full disk.
_OF_ONE_STATEMENT = _BUSY | {"53100", "57014"}
#: Lost connections, a server without resources, one that stops or starts, and one that cannot write.
_PASSING = ("08", "25006", "53", "57", "58")

#: What passes when the administrator of the server does something, by the code of the error.
_HINTS = {
    "53100": "; free space on the disk of the database server",
    "53300": "; let the database server accept more connections (max_connections)",
}
_TLS = ("does not support SSL", "certificate")
TLS = "; correct sslmode and sslrootcert in BRIDGE_STATE_URL"
#: Parts of the messages of a connection that was not made.
_UNREACHED = ("connection failed", "connection is bad", "failed to resolve host", "timeout expired")
UNREACHABLE = "; check the host and the port in BRIDGE_STATE_URL, and that the server runs"

POOL_ERRORS = (PoolClosed, PoolTimeout, TooManyRequests)


def storage_error(location: str, error: psycopg.Error, secrets: Iterable[str] = ()) -> StorageError:
    code, reason = _code_of(error), _first_line(error, secrets)
    if told := _UNFIT.get(code) or _UNFIT.get(code[:2]):
        return DatabaseUnfit(f"{location}: {told} ({reason})", reason)
    passing = code in _OF_ONE_STATEMENT or server_failed(error) or isinstance(error, POOL_ERRORS)
    kind = StorageBusy if code in _BUSY else StorageUnavailable if passing else StorageError
    return kind(f"{location} cannot be used: {reason}{_hint(code, reason)}", reason)


def _hint(code: str, reason: str) -> str:
    if code in _HINTS:
        return _HINTS[code]
    if any(sign in reason for sign in _TLS):
        return TLS
    return UNREACHABLE if any(sign in reason for sign in _UNREACHED) else ""


def server_failed(error: psycopg.Error) -> bool:
    """Whether the next statement would fail too."""
    code = _code_of(error)
    if code in _OF_ONE_STATEMENT or isinstance(error, POOL_ERRORS):
        return False
    return code.startswith(_PASSING) or (not code and isinstance(error, psycopg.OperationalError))


def _code_of(error: psycopg.Error) -> str:
    if error.sqlstate or not isinstance(error, psycopg.OperationalError):
        return error.sqlstate or ""
    text = str(error)
    if "FATAL" not in text and "no password supplied" not in text:
        return ""
    return next((code for sign, code in _CODES_OF_MESSAGES.items() if sign in text), "")


def _first_line(error: psycopg.Error, secrets: Iterable[str]) -> str:
    lines = str(error).strip().splitlines()
    text = error.diag.message_primary or (lines[0] if lines else type(error).__name__)
    for secret in secrets:
        text = text.replace(secret, "[masked]")
    return text
