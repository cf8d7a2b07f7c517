"""What one choice of an event says, in whichever fields the server writes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bridge.gemini.types import JsonObject

#: Fields for thoughts; the first one that has a text is used.
REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")


class Spoken(NamedTuple):
    text: str
    thoughts: str
    calls: Sequence[Any]


def spoken_in(choice: JsonObject) -> Spoken:
    """A server that does not stream sends a `message` instead of a `delta`."""
    delta = _first_object(choice, ("delta", "message"))
    if not delta:
        return Spoken("", "", ())
    text, thoughts = _content(delta.get("content"))
    calls = delta.get("tool_calls")
    if not isinstance(calls, list):
        calls = [{"function": delta["function_call"]}] if delta.get("function_call") else []
    return Spoken(text or _string(delta.get("refusal")), _reasoning(delta) or thoughts, calls)


def _first_object(holder: JsonObject, names: Sequence[str]) -> JsonObject:
    return next((found for name in names if isinstance(found := holder.get(name), dict)), {})


def _content(content: Any) -> tuple[str, str]:
    """Text and thoughts; Mistral sends a list of typed parts for models that think."""
    if not isinstance(content, list):
        return _string(content), ""
    text, thoughts = [], []
    for part in content:
        if isinstance(part, dict):
            text.append(_string(part.get("text")))
            thoughts.append(_joined(part.get("thinking")))
    return "".join(text), "".join(thoughts)


def _reasoning(delta: JsonObject) -> str:
    named = next((text for name in REASONING_FIELDS if (text := _string(delta.get(name)))), "")
    return named or _joined(delta.get("reasoning_details"))


def _joined(parts: Any) -> str:
    """The texts of typed parts, which may be summaries."""
    if not isinstance(parts, list):
        return _string(parts)
    texts = (part.get("text") or part.get("summary") for part in parts if isinstance(part, dict))
    return "".join(map(_string, texts))


def _string(value: Any) -> str:
    """Some relays send a number where a text belongs."""
    if isinstance(value, str):
        return value
    return str(value) if type(value) in (int, float) else ""


# --- log probabilities -------------------------------------------------------------------------------


def logprobs_of(choice: JsonObject) -> dict[str, Any]:
    """The field of a candidate with log probabilities in Gemini's form; no field if there are none."""
    tokens = _objects(_first_object(choice, ("logprobs",)).get("content"))
    if not tokens:
        return {}
    result: dict[str, Any] = {"chosenCandidates": [_token(token) for token in tokens]}
    others = [[_token(other) for other in _objects(token.get("top_logprobs"))] for token in tokens]
    if any(others):
        result["topCandidates"] = [{"candidates": each} for each in others]
    return {"logprobsResult": result}


def _objects(items: Any) -> list[JsonObject]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _token(token: JsonObject) -> dict[str, Any]:
    return {"token": _string(token.get("token")), "logProbability": token.get("logprob", 0.0)}
