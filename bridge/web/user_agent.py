"""The name of the client program, from the first word of its `User-Agent`."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._+-]{0,31}(?=[/ ;(]|$)")


def client_program(user_agent: str | None) -> str | None:
    """`codex_cli_rs` for `codex_cli_rs/0.166.0 (Linux; x86_64)`; None if the word cannot be a name."""
    found = _NAME.match(user_agent or "")
    return found[0] if found else None
