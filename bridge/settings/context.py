"""The settings of `bridge/context/`: whose long conversations the bridge shortens, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from bridge.settings.value import OFF, OneOf, Range

CLIENTS, ALL = "clients", "all"
AUTO = "auto"
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
    summary: bool = True
    leading_turns: bool = True
    protected_tokens: Tokens = 50_000
    least_saved: Tokens = 30_000
    model: str = AUTO  #: writes the summaries; auto: the `summary_model` of the request's model
    summary_from: Annotated[float, Range(0, 1)] = 0.7  #: the share of the window
    first_turns: Annotated[int, Range(0)] = 3
    last_turns: Annotated[int, Range(1)] = 5
    summary_days: Annotated[float, Range(0)] = 30
    grid: Annotated[int, Range(256)] = 32_768
