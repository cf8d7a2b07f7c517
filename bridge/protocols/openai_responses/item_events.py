"""What happens to an output item, apart from texts: it begins, has events of its own, and ends."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class ItemEvents(NamedTuple):
    item: dict[str, Any] | None = None  #: the item that begins
    events: tuple[tuple[str, dict[str, Any]], ...] = ()
    filled: Mapping[str, Any] = MappingProxyType({})  #: fields that the events completed
    finished: dict[str, Any] | None = None  #: the last fields of the item that ends
