"""Converts code that Gemini executes, and its result, to steps and back."""

from __future__ import annotations

from typing import Any

from bridge.gemini.model_adapter import GENERATED_ID_PREFIX
from bridge.gemini.types import JsonObject, OtherData
from bridge.protocols.json_reading import optional, required

CALL, RESULT = "code_execution_call", "code_execution_result"
_CODE, _OUTCOME = "executableCode", "codeExecutionResult"
#: A step can express only these two outcomes.
OK, FAILED = "OUTCOME_OK", "OUTCOME_FAILED"


def code_step(data: OtherData, call_id: str) -> tuple[JsonObject, dict[str, Any]] | None:
    """A step and the delta that completes it, or None if the data is not code. `call_id` is the fallback for
    code without an id."""
    value = data.value if isinstance(data.value, dict) else {}
    own_id = value.get("id") or call_id
    if data.field == _CODE:
        language = str(value.get("language", "python")).lower()
        arguments = {"code": value.get("code", ""), "language": language}
        return {"type": CALL, "id": own_id, "arguments": {}}, {"type": CALL, "arguments": arguments}
    if data.field == _OUTCOME:
        fields = {"result": value.get("output", ""), "is_error": value.get("outcome") != OK}
        return {"type": RESULT, "call_id": own_id, "result": ""}, {"type": RESULT, **fields}
    return None


def is_outcome_supported(data: OtherData) -> bool:
    value = data.value if isinstance(data.value, dict) else {}
    return data.field != _OUTCOME or value.get("outcome") in (OK, FAILED)


def read_call(step: JsonObject, path: str) -> OtherData:
    arguments, where = required(step, "arguments", dict, path), f"{path}.arguments"
    language = optional(arguments, "language", str, where) or "python"
    code = {"language": language.upper(), "code": required(arguments, "code", str, where)}
    return OtherData(_CODE, {**code, **_own_id(step, "id", path)})


def read_result(step: JsonObject, path: str) -> OtherData:
    outcome = FAILED if optional(step, "is_error", bool, path) else OK
    fields = {"outcome": outcome, "output": optional(step, "result", str, path) or ""}
    return OtherData(_OUTCOME, {**fields, **_own_id(step, "call_id", path)})


def _own_id(step: JsonObject, field: str, path: str) -> dict[str, str]:
    """The id, unless the bridge generated it: Gemini never saw generated ids."""
    own_id = optional(step, field, str, path)
    return {"id": own_id} if own_id and not own_id.startswith(GENERATED_ID_PREFIX) else {}
