"""Prepares requests for models that write their tool calls or thoughts as text."""

from __future__ import annotations

from dataclasses import replace

from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.thinking import is_off
from bridge.gemini.types import GenerateRequest, Thinking
from bridge.observe.record import Record
from bridge.text_tools import request_in_text
from bridge.upstream.retries import PreparedAttempt

NO_THINKING = Thinking("none", show=False)


def before_adapting(
    request: GenerateRequest, model: ModelCapabilities
) -> tuple[GenerateRequest, ModelCapabilities]:
    """Switch thinking off if the operator did so for the model. Without declared tools, their rules do not
    apply."""
    if model.think == "off":
        request = replace(request, thinking=NO_THINKING)
    if model.tools == "text":
        model = replace(model, needs_signatures=False, tool_media=False, json_beside_tools=False)
    return request, model


def prepared_in_text(
    prepared: PreparedAttempt, asked: GenerateRequest, capabilities: ModelCapabilities, record: Record
) -> PreparedAttempt:
    """The attempt with its tools as text, and with a reader for calls and thoughts in the answer. `asked` is
    the request before it was adapted."""
    if not capabilities.in_text:
        return prepared
    no_thinking = asked.thinking is not None and is_off(asked.thinking)
    written = request_in_text(prepared.request, capabilities, no_thinking=no_thinking)
    prepared.adapter.notes += written.notes
    return prepared._replace(
        request=written.request,
        new_text_reader=lambda: written.new_answer_reader(lambda name: record.note([name])),
    )
