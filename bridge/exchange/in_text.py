"""Prepares requests for models that write their tool calls or thoughts as text."""

from __future__ import annotations

from dataclasses import replace

from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.thinking import is_off
from bridge.gemini.types import GenerateRequest, Thinking
from bridge.observe.record import Record
from bridge.settings import UpstreamRow
from bridge.text_tools import request_in_text
from bridge.upstream.prepared_attempt import PreparedAttempt

NO_THINKING = Thinking("none", show=False)

#: Upstreams whose models may write thoughts between tags, if the operator sets nothing else.
TAGS_EXPECTED = ("openai", "ollama")


def before_adapting(
    request: GenerateRequest, model: ModelCapabilities, row: UpstreamRow
) -> tuple[GenerateRequest, ModelCapabilities]:
    """Complete the model's text form by the row of its upstream, and apply what must precede the adapter."""
    model = _with_text_form(model, row)
    if model.think == "off":
        request = replace(request, thinking=NO_THINKING)
    if model.tools == "text":  # rules for declared tools do not apply
        model = replace(model, needs_signatures=False, tool_media=False, json_beside_tools=False)
    return request, model


def _with_text_form(model: ModelCapabilities, row: UpstreamRow) -> ModelCapabilities:
    """The row of the model decides before the row of its upstream."""
    return replace(
        model,
        tools=model.tools or row.tools,
        preserve_context=model.preserve_context and row.preserve_context,
        parameter_map={**row.parameter_map, **model.parameter_map},
        think=model.think or row.think or ("show" if row.kind in TAGS_EXPECTED else ""),
        think_opens=model.think_opens or row.think_opens,
        soft_switch=model.soft_switch or row.soft_switch,
    )


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
    prepared = prepared._replace(request=written.request)
    if not (written.tools or capabilities.think):  # there is nothing to find in the answer
        return prepared
    return prepared._replace(
        new_text_reader=lambda: written.new_answer_reader(lambda name: record.note([name]))
    )
