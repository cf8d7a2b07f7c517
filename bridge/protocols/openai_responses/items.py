"""Converts the input items of a Responses request to Gemini contents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from mimetypes import guess_type
from typing import Any, ClassVar

from bridge.gemini.freeform import freeform_call
from bridge.gemini.hosted_tools import HostedCall, HostedResult, hosted_part
from bridge.gemini.media import inline_from_base64, media_from_url
from bridge.gemini.media_types import PDF
from bridge.gemini.types import (
    MODEL,
    USER,
    Content,
    FunctionCall,
    FunctionResponse,
    JsonObject,
    Part,
)
from bridge.protocols.carried_signatures import read_thought
from bridge.protocols.content_parts import (
    Reader,
    only_texts,
    read_content,
    refusal_part,
    reminders,
    system_content,
    text_part,
    tool_result,
)
from bridge.protocols.json_reading import (
    arguments_object,
    each_object,
    invalid_field,
    optional,
    quoted,
    required,
)
from bridge.protocols.openai_responses.compaction import TRIGGER, compact
from bridge.protocols.openai_responses.hosted import code_parts, image_kind
from bridge.protocols.openai_responses.losses import detail_losses
from bridge.protocols.openai_responses.mcp_history import McpHistory
from bridge.protocols.openai_responses.tools import LOCAL_SHELL, TOOL_SEARCH, DeclaredTools
from bridge.protocols.summary_seal import SummarySeal

ROLES = ("user", "assistant", "system", "developer")

#: Items of Google's search. Dropped: the text after them has the results, and Gemini never produced these
#: items.
SEARCH_ITEMS = frozenset({"web_search_call"})


class Items:
    """The conversation so far, item by item. Items of unknown kinds are dropped and counted."""

    def __init__(self, declared: DeclaredTools, seal: SummarySeal) -> None:
        self._seal = seal
        self.contents: list[Content] = []
        self._kept = 0  #: how many of them the last compaction item kept
        self.losses: list[str] = []
        self._declared = declared
        self._system: list[str] = []
        self._call_names: dict[str, str] = {}
        self._shell_calls: dict[str, str] = {}  # call ids by item ids, which outputs may name instead
        self._for_next_call: str | None = None
        self.mcp = McpHistory()

    @property
    def system(self) -> Content | None:
        return system_content(self._system)

    def instruct(self, text: str) -> None:
        if text.strip():
            self._system.append(text)

    def add(self, item: JsonObject, path: str) -> None:
        kind = optional(item, "type", str, path) or "message"  # the short form of a message has no type
        if kind in SEARCH_ITEMS:
            return
        read = self._READERS.get(kind)
        if read is None:
            self.losses.append(f"responses.item:{kind[:32]}")
            return
        read(self, item, path)

    def _add_content(self, role: str, *parts: Part) -> None:
        self.contents.append(Content(role, parts))

    # --- messages -------------------------------------------------------------------------------

    def _message(self, item: JsonObject, path: str) -> None:
        self._for_next_call = None  # only its call may follow such a signature
        role = required(item, "role", str, path)
        if role not in ROLES:
            raise invalid_field(f"must be one of {', '.join(ROLES)}, not {quoted(role)}", f"{path}.role")
        parts = content_parts(item.get("content"), f"{path}.content")
        self.losses += detail_losses(item.get("content"))
        if role in ("system", "developer"):
            self._instruction("\n\n".join(only_texts(parts, f"{path}.content")))
        else:
            self._add_content(MODEL if role == "assistant" else USER, *parts)

    def _instruction(self, text: str) -> None:
        if self.contents:
            self.contents.append(reminders([text]))
        else:
            self.instruct(text)

    def _reasoning(self, item: JsonObject, path: str) -> None:
        summary = each_object(optional(item, "summary", list, path) or [], f"{path}.summary")
        thought = "\n\n".join(required(part, "text", str, where) for where, part in summary)
        signature = optional(item, "encrypted_content", str, path) or ""
        if item.get("content"):
            self.losses.append("responses.reasoning_content")
        parts, self._for_next_call = read_thought(thought, signature)
        if parts:
            self._add_content(MODEL, *parts)

    def _compaction(self, item: JsonObject, path: str) -> None:
        """A summary that replaces older turns. One that another vendor or another owner sealed is dropped
        and counted."""
        self._for_next_call = None
        opened = self._seal.open(item.get("encrypted_content"))
        text = optional(item, "summary", str, path) or optional(item, "text", str, path)
        if opened is not None:
            self._kept = compact(self.contents, self._kept, opened)
        elif text:
            self._add_content(USER, Part(text))
        else:
            self.losses.append("responses.encrypted_compaction")

    def _trigger(self, _item: JsonObject, path: str) -> None:
        raise invalid_field("a compaction_trigger must be the last input item", f"{path}.type")

    # --- calls and their results ---------------------------------------------------------------------

    def _call(self, call: FunctionCall) -> None:
        self._call_names[call.id or ""] = call.name
        self._add_content(MODEL, Part(call, signature=self._for_next_call))
        self._for_next_call = None

    def _name(self, item: JsonObject, path: str) -> str:
        name, namespace = required(item, "name", str, path), optional(item, "namespace", str, path)
        return self._declared.name_for(name, namespace)

    def _function_call(self, item: JsonObject, path: str) -> None:
        arguments = arguments_object(optional(item, "arguments", str, path) or "")
        self._call(FunctionCall(self._name(item, path), arguments, required(item, "call_id", str, path)))

    def _custom_call(self, item: JsonObject, path: str) -> None:
        text, call_id = required(item, "input", str, path), required(item, "call_id", str, path)
        self._call(freeform_call(self._name(item, path), text, call_id))

    def _local_shell_call(self, item: JsonObject, path: str) -> None:
        action = required(item, "action", dict, path)
        arguments = {key: value for key, value in action.items() if key != "type" and value not in (None, {})}
        call_id = _call_id(item, path)
        self._shell_calls[optional(item, "id", str, path) or call_id] = call_id
        self._call(FunctionCall(LOCAL_SHELL, arguments, call_id))

    def _tool_search_call(self, item: JsonObject, path: str) -> None:
        arguments = item.get("arguments")
        arguments = arguments if isinstance(arguments, dict) else arguments_object(str(arguments or ""))
        self._call(FunctionCall(TOOL_SEARCH, arguments, _call_id(item, path)))

    def _output(self, item: JsonObject, path: str) -> None:
        self._result(item, required(item, "call_id", str, path), path)

    def _local_shell_output(self, item: JsonObject, path: str) -> None:
        given = _call_id(item, path)
        self._result(item, self._shell_calls.get(given, given), path)

    def _result(self, item: JsonObject, call_id: str, path: str) -> None:
        name = self._call_names.get(call_id) or self._name_in_result(item, path)
        output = item.get("output")
        self.losses += detail_losses(output)
        parts = [] if output is None else content_parts(output, f"{path}.output")
        self._add_content(USER, tool_result(parts, name, call_id))

    def _name_in_result(self, item: JsonObject, path: str) -> str:
        """Clients that shorten a history keep results without their call; some of them send the tool's name
        too."""
        name, namespace = optional(item, "name", str, path), optional(item, "namespace", str, path)
        return self._declared.name_for(name, namespace) if name else ""

    def _tool_search_output(self, item: JsonObject, path: str) -> None:
        tools = optional(item, "tools", list, path) or []
        found = self._declared.add(tools, f"{path}.tools")
        self._add_content(USER, Part(FunctionResponse(TOOL_SEARCH, {"found": found}, _call_id(item, path))))

    def _code_interpreter_call(self, item: JsonObject, path: str) -> None:
        parts = code_parts(item, path)
        if parts:
            self._add_content(MODEL, *parts)

    def _mcp_call(self, item: JsonObject, path: str) -> None:
        self._hosted(*self.mcp.call(item, path))

    def _hosted(self, call: HostedCall, result: HostedResult | None) -> None:
        self._add_content(MODEL, hosted_part(call, self._for_next_call))
        self._for_next_call = None
        if result is not None:
            self._add_content(MODEL, hosted_part(result))

    def _mcp_list_tools(self, item: JsonObject, path: str) -> None:
        self.mcp.list_tools(item, path)

    def _mcp_request(self, item: JsonObject, path: str) -> None:
        self.mcp.request(item, path)

    def _mcp_response(self, item: JsonObject, path: str) -> None:
        refused = self.mcp.decide(item, path)
        if refused is not None:
            self._hosted(*refused)

    def _image_generation_call(self, item: JsonObject, path: str) -> None:
        drawn = optional(item, "result", str, path)
        if drawn:
            self._add_content(MODEL, Part(inline_from_base64(image_kind(drawn), drawn, f"{path}.result")))

    def _additional_tools(self, item: JsonObject, path: str) -> None:
        self._declared.add(required(item, "tools", list, path), f"{path}.tools")

    #: A class attribute: in each object it would be a reference cycle.
    _READERS: ClassVar[Mapping[str, Callable[[Items, JsonObject, str], None]]] = {
        "message": _message,
        "reasoning": _reasoning,
        "function_call": _function_call,
        "function_call_output": _output,
        "custom_tool_call": _custom_call,
        "custom_tool_call_output": _output,
        "local_shell_call": _local_shell_call,
        "local_shell_call_output": _local_shell_output,
        "tool_search_call": _tool_search_call,
        "tool_search_output": _tool_search_output,
        "additional_tools": _additional_tools,
        "code_interpreter_call": _code_interpreter_call,
        "mcp_call": _mcp_call,
        "mcp_list_tools": _mcp_list_tools,
        "mcp_approval_request": _mcp_request,
        "mcp_approval_response": _mcp_response,
        "image_generation_call": _image_generation_call,
        TRIGGER: _trigger,
        "compaction": _compaction,
        "compaction_summary": _compaction,
        "context_compaction": _compaction,
    }


def _call_id(item: JsonObject, path: str) -> str:
    given = optional(item, "call_id", str, path) or optional(item, "id", str, path)
    return given or required(item, "call_id", str, path)


# --- content parts -----------------------------------------------------------------------------------


def content_parts(content: Any, path: str) -> list[Part]:
    return read_content(content, path, _PART_READERS)


def _image(part: JsonObject, path: str) -> Part:
    field = "image_url" if part.get("file_id") is None else "file_id"
    return Part(media_from_url(required(part, field, str, path), f"{path}.{field}"))


def _file(part: JsonObject, path: str) -> Part:
    for field in ("file_url", "file_id"):
        if (address := optional(part, field, str, path)) is not None:
            return Part(media_from_url(address, f"{path}.{field}", PDF))
    data, where = required(part, "file_data", str, path), f"{path}.file_data"
    if data[:5].lower() == "data:":
        return Part(media_from_url(data, where))
    kind, _ = guess_type(optional(part, "filename", str, path) or "")
    return Part(inline_from_base64(kind or PDF, data, where))


def _audio(part: JsonObject, path: str) -> Part:
    audio, where = required(part, "input_audio", dict, path), f"{path}.input_audio"
    kind = required(audio, "format", str, where)
    return Part(inline_from_base64(f"audio/{kind}", required(audio, "data", str, where), f"{where}.data"))


_PART_READERS: dict[str, Reader] = {
    "input_text": text_part,
    "output_text": text_part,
    "text": text_part,
    "summary_text": text_part,
    "refusal": refusal_part,
    "input_image": _image,
    "input_file": _file,
    "input_audio": _audio,
}
