"""OpenAI's `prompt_cache_options`. Gemini always caches the beginning of a prompt by itself."""

from __future__ import annotations

from bridge.gemini.types import JsonObject
from bridge.protocols.json_reading import invalid_field, optional, quoted

_FIELD = "prompt_cache_options"
_EXPLICIT = "explicit"
#: The vendor's values of each option, the default first.
_VALUES = {"mode": ("implicit", _EXPLICIT), "ttl": ("30m",)}


def cache_losses(body: JsonObject, loss: str) -> list[str]:
    """The mode `implicit` is what Gemini does. With `explicit`, OpenAI caches only what the client marks."""
    options = optional(body, _FIELD, dict, "") or {}
    for name, values in _VALUES.items():
        value = optional(options, name, str, _FIELD)
        if value is not None and value not in values:
            raise invalid_field(f"must be {' or '.join(values)}, not {quoted(value)}", f"{_FIELD}.{name}")
    return [loss] if options.get("mode") == _EXPLICIT else []
