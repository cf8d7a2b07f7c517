"""The settings of `bridge/context/`: whose long conversations the bridge shortens, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from bridge.settings.value import OFF, OneOf, Range

CLIENTS, ALL = "clients", "all"
USER_TURNS, STRICT = "user_turns", "strict"
SHADOW, ENFORCE = "shadow", "enforce"

Tokens = Annotated[int, Range(0)]


@dataclass(frozen=True, slots=True)
class ContextSettings:
    compress: Annotated[str, OneOf((OFF, CLIENTS, ALL))] = OFF
    clients: tuple[str, ...] = ()  #: patterns for the names of client programs
    history: Annotated[str, OneOf((USER_TURNS, STRICT))] = USER_TURNS
    repeated_turns: bool = True
    editor_context: Annotated[str, OneOf((OFF, SHADOW, ENFORCE))] = SHADOW
    old_thoughts: bool = True
    old_results: bool = True
    old_media: bool = True
    leading_turns: bool = True
    protected_tokens: Tokens = 50_000
    least_saved: Tokens = 30_000
    grid: Annotated[int, Range(256)] = 32_768
