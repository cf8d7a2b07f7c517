"""The rules of a key as a JSON text, in which the stores keep them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import orjson

from bridge.settings.limits import Limits
from bridge.state.key_store import Rules


def rules_to_text(rules: Rules) -> str:
    return orjson.dumps(asdict(rules)).decode()


def rules_from_text(text: str) -> Rules:
    """Fields that an older version did not write get their defaults; fields of a newer version are
    ignored."""
    written: dict[str, Any] = orjson.loads(text)
    limits = Limits(**_known(Limits, written.pop("limits", {})))
    values = _known(Rules, written)
    for name in ("models", "networks"):
        values[name] = tuple(values.get(name, ()))
    return Rules(**values, limits=limits)


def _known(owner: type, written: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(owner)}
    return {name: value for name, value in written.items() if name in names}
