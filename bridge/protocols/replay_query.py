"""Reads the query of a request that streams a stored answer."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.protocols.json_reading import invalid_field

LONGEST_NUMBER = 15  #: digits; parsing a very long number takes time
_FLAGS = {"true": True, "false": False}


def wants_stream(query: Mapping[str, str]) -> bool:
    given = query.get("stream", "false").lower()
    if given not in _FLAGS:
        raise invalid_field("must be true or false", "stream")
    return _FLAGS[given]


def whole_number(query: Mapping[str, str], name: str) -> int | None:
    """The parameter as a number from 0; None if the query does not have it."""
    given = query.get(name)
    if given is None:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) <= LONGEST_NUMBER):
        raise invalid_field("must be a whole number from 0", name)
    return int(given)
