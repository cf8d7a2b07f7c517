"""What Ollama says about a model: its context window, and whether it can think."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from bridge.gemini.types import JsonObject

#: The window if neither the model's own parameters nor its training limit it to less. Ollama reserves memory
#: for the whole window.
USUAL_WINDOW = 32_768

_NUM_CTX = re.compile(r"(?m)^\s*num_ctx\s+(\d{1,9})\s*$")


class ShownModel(NamedTuple):
    window: int
    thinks: bool


def shown_model(answer: JsonObject) -> ShownModel:
    """The model of an `/api/show` answer. `num_ctx` of a Modelfile is a window that the operator chose."""
    parameters, info = answer.get("parameters"), answer.get("model_info")
    chosen = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    if chosen is not None and int(chosen[1]):
        window = int(chosen[1])
    else:
        window = min(USUAL_WINDOW, _trained(info if isinstance(info, Mapping) else {}))
    capabilities = answer.get("capabilities")
    return ShownModel(window, isinstance(capabilities, list) and "thinking" in capabilities)


def _trained(info: Mapping[str, Any]) -> int:
    lengths = [value for name, value in info.items() if name.endswith(".context_length")]
    return next((length for length in lengths if type(length) is int and length > 0), USUAL_WINDOW)
