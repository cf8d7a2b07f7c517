"""Regular expressions that somebody wrote into a file: they must compile, and never run away.

A repetition inside a repetition can take ages on a text that almost matches. It is refused at the start,
where somebody can still change it.
"""

from __future__ import annotations

import re
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

from bridge.settings.value import SettingsError

_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)
#: A few rounds are no danger, whatever they repeat.
MOST_ROUNDS = 8


def checked_pattern(pattern: str, where: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
        parsed = _parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise SettingsError(f"{where} is not a regular expression: {error}") from None
    if _runs_away(parsed, inside=False):
        raise SettingsError(f"{where} repeats a repetition, which could take for ever; write it without")
    return compiled


def _runs_away(parsed: Any, inside: bool) -> bool:
    return any(_node_runs_away(operator, argument, inside) for operator, argument in parsed)


def _node_runs_away(operator: Any, argument: Any, inside: bool) -> bool:
    if operator in _REPEATS:
        _, most, body = argument
        many = most > MOST_ROUNDS
        return (many and inside) or _runs_away(body, inside or many)
    return any(_runs_away(body, inside) for body in _bodies(operator, argument))


def _bodies(operator: Any, argument: Any) -> list[Any]:
    """The patterns within a node that repeats nothing itself."""
    if operator is _constants.SUBPATTERN:
        return [argument[-1]]
    if operator is _constants.BRANCH:
        return list(argument[1])
    if operator in (_constants.ASSERT, _constants.ASSERT_NOT):
        return [argument[1]]
    if operator in (_constants.ATOMIC_GROUP,):
        return [argument]
    return []
