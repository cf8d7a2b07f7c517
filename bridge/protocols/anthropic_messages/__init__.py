"""Anthropic Messages: Claude Code, the Anthropic SDKs."""

from bridge.protocols.anthropic_messages.compaction import FIELD as COMPACTION
from bridge.protocols.anthropic_messages.context_management import count_body
from bridge.protocols.anthropic_messages.converter import to_gemini
from bridge.protocols.anthropic_messages.errors import error_body, error_status
from bridge.protocols.anthropic_messages.limits import limit_headers
from bridge.protocols.anthropic_messages.losses import ANSWER_LOSSES, REQUEST_LOSSES
from bridge.protocols.anthropic_messages.machine import MessagesMachine
from bridge.protocols.anthropic_messages.models import list_models, show_model
from bridge.protocols.anthropic_messages.schema import MessagesCountSchema, MessagesSchema
from bridge.protocols.base import Event, Protocol, StreamFraming, TokenCounting
from bridge.protocols.sse import encode_named

PING = encode_named(Event("ping", {"type": "ping"}))

PROTOCOL = Protocol(
    name="anthropic_messages",
    paths=("/v1/messages",),
    schema=MessagesSchema(),
    to_gemini=to_gemini,
    machine=MessagesMachine,
    framing=lambda _converted: StreamFraming(encode_named, PING),
    error_body=error_body,
    error_status=error_status,
    list_models=list_models,
    show_model=show_model,
    identifying_headers=frozenset({"anthropic-version"}),
    counting=TokenCounting(
        paths=("/v1/messages/count_tokens",),
        schema=MessagesCountSchema(),
        # A wish for a summary changes nothing about the conversation that is counted.
        to_gemini=lambda body, caller: to_gemini({**body, COMPACTION: None}, caller),
        body=count_body,
    ),
    request_id_header="request-id",
    limit_headers=limit_headers,
    request_losses=REQUEST_LOSSES,
    answer_losses=ANSWER_LOSSES,
)
