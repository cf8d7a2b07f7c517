"""Converts a native request, which is already Gemini's but may use another spelling.

The path holds model and method. Fields that the bridge does not know are passed on to Gemini.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bridge.gemini.types import (
    MODEL,
    USER,
    Content,
    GenerateRequest,
    JsonObject,
    Part,
)
from bridge.gemini.wire import request_from_json
from bridge.protocols.base import Caller, ConvertedRequest
from bridge.protocols.gemini_native.normalise import REQUEST, read
from bridge.protocols.json_reading import (
    each_object,
    invalid_field,
    optional,
    quoted,
    required,
    required_name,
)

#: Google's older SDKs use the role `function` for the result of a call.
ROLES = (None, USER, MODEL, "function")
STREAMING = "streamGenerateContent"
#: Google's older SDKs send the index in this list instead of the name.
CALLING_MODES = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")
LONGEST_MODEL = 256


@dataclass(frozen=True, slots=True)
class NativeOptions:
    sse: bool = False  #: False: a stream is one JSON array


def to_gemini(body: JsonObject, caller: Caller) -> ConvertedRequest:
    stream = caller.path.get("method") == STREAMING
    return ConvertedRequest(
        _request(body, model_named(caller)), stream, NativeOptions(sse=_wants_sse(caller.query))
    )


def counted_to_gemini(body: JsonObject, caller: Caller) -> ConvertedRequest:
    """A request to count tokens: either of contents or of a whole request."""
    whole = optional(body, "generateContentRequest", dict, "")
    if (whole is None) == ("contents" not in body):
        raise invalid_field(
            "either contents or a generateContentRequest is required, and not both", "contents"
        )
    path = "" if whole is None else "generateContentRequest"
    return ConvertedRequest(
        _request(body if whole is None else whole, model_named(caller), path), stream=False
    )


def model_named(caller: Caller) -> str:
    model = caller.path["model"]
    if len(model) > LONGEST_MODEL:
        raise invalid_field(f"must be at most {LONGEST_MODEL} characters", "model")
    return model


def _wants_sse(query: Mapping[str, str]) -> bool:
    # Older SDKs ask for "json;enum-encoding=int", but they also read names.
    form = query.get("alt") or query.get("$alt") or "json"
    if form.partition(";")[0] not in ("json", "sse"):
        raise invalid_field(f"must be json or sse, not {quoted(form)}", "alt")
    return form == "sse"


def _request(body: JsonObject, model: str, path: str = "") -> GenerateRequest:
    fields = read(REQUEST, body, path)
    fields.pop("model", None)  # the model in the path counts
    where = f"{path}." if path else ""
    _check_contents(fields.get("contents", []), f"{where}contents")
    _check_tools(fields, where)
    request = request_from_json(model, dict(sorted(fields.items())))  # the same request gives the same bytes
    return replace(request, system=_without_empty_parts(request.system), native=True)


def _without_empty_parts(system: Content | None) -> Content | None:
    """The instruction without empty parts, which Google rejects."""
    if system is None or not any(map(_has_content, system.parts)):
        return None
    return replace(system, parts=tuple(filter(_has_content, system.parts)))


def _has_content(part: Part) -> bool:
    blank = part.data is None or (isinstance(part.data, str) and not part.data.strip())
    return not blank or bool(part.extra)


# --- checks -----------------------------------------------------------------------------------------
# ------------------------


def _check_contents(contents: list[dict[str, Any]], path: str) -> None:
    for where, content in each_object(contents, path):
        if content.get("role") not in ROLES:
            raise invalid_field(f"must be user or model, not {quoted(content['role'])}", f"{where}.role")
        for place, part in each_object(content.get("parts", []), f"{where}.parts"):
            _check_part(part, place)
    if not any(content.get("parts") for content in contents):
        raise invalid_field("must hold at least one part", path)


def _check_part(part: dict[str, Any], path: str) -> None:
    for name in ("functionCall", "functionResponse"):
        if name in part:
            required_name(part[name], f"{path}.{name}")
    if "functionResponse" in part:
        part["functionResponse"].setdefault("response", {})
    for name, needs in (("inlineData", ("mimeType", "data")), ("fileData", ("fileUri",))):
        for field in needs if name in part else ():
            required(part[name], field, str, f"{path}.{name}")


def _check_tools(fields: dict[str, Any], where: str) -> None:
    for path, tool in each_object(fields.get("tools", []), f"{where}tools"):
        for place, function in each_object(
            tool.get("functionDeclarations", []), f"{path}.functionDeclarations"
        ):
            required_name(function, place)
    calling = fields.get("toolConfig", {}).get("functionCallingConfig", {})
    _check_names(calling.get("allowedFunctionNames", []), f"{where}toolConfig.functionCallingConfig")
    mode = calling.get("mode")
    if type(mode) is int and 0 <= mode < len(CALLING_MODES):
        calling["mode"] = CALLING_MODES[mode]


def _check_names(names: Iterable[Any], path: str) -> None:
    if not all(isinstance(name, str) for name in names):
        raise invalid_field("must be an array of strings", f"{path}.allowedFunctionNames")
