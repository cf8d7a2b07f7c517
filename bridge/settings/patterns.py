"""Regular expressions that somebody wrote into a file: they must compile, and never run away.

A repetition inside a repetition can take ages on a text that almost matches. It is refused at the start,
where somebody can still change it.
"""

from __future__ import annotations

import re
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

from bridge.settings.value import SettingsError

_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)
#: A few rounds are no danger, whatever they repeat.
MOST_ROUNDS = 8


def checked_pattern(pattern: str, where: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
        parsed = _parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise SettingsError(f"{where} is not a regular expression: {error}") from None
    if _runs_away(parsed):
        raise SettingsError(f"{where} repeats a repetition, which could take for ever; write it without")
    return compiled


def _runs_away(parsed: Any) -> bool:
    return any(_node_runs_away(operator, argument) for operator, argument in parsed)


def _node_runs_away(operator: Any, argument: Any) -> bool:
    if operator in _REPEATS:
        _, most, body = argument
        return (most > MOST_ROUNDS and not _fits_one_way(body)) or _runs_away(body)
    return any(map(_runs_away, _bodies(operator, argument)))


def _fits_one_way(body: Any) -> bool:
    """Always as long, and without a choice: then a text can be divided into rounds in one way only."""
    least, most = body.getwidth()
    return bool(least == most) and not _has_choice(body)


def _has_choice(parsed: Any) -> bool:
    return any(
        operator is _constants.BRANCH or any(map(_has_choice, _bodies(operator, argument)))
        for operator, argument in parsed
    )


def _bodies(operator: Any, argument: Any) -> list[Any]:
    """The patterns within a node that repeats nothing itself."""
    if operator is _constants.SUBPATTERN:
        return [argument[-1]]
    if operator is _constants.BRANCH:
        return list(argument[1])
    if operator in (_constants.ASSERT, _constants.ASSERT_NOT):
        return [argument[1]]
    if operator is _constants.ATOMIC_GROUP:
        return [argument]
    if operator is _constants.GROUPREF_EXISTS:
        return [body for body in argument[1:] if body is not None]
    return []
