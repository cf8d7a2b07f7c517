"""OpenAI Chat Completions: most editors, LangChain, the OpenAI SDKs."""

from bridge.protocols.base import Protocol, StreamFraming
from bridge.protocols.openai_chat.converter import to_gemini
from bridge.protocols.openai_chat.losses import ANSWER_LOSSES, REQUEST_LOSSES
from bridge.protocols.openai_chat.machine import ChatMachine
from bridge.protocols.openai_chat.schema import ChatSchema
from bridge.protocols.openai_chunks import encode
from bridge.protocols.openai_errors import error_body, error_status
from bridge.protocols.openai_limits import limit_headers
from bridge.protocols.openai_models import list_models, show_model

PROTOCOL = Protocol(
    name="openai_chat",
    paths=("/v1/chat/completions",),
    schema=ChatSchema(),
    to_gemini=to_gemini,
    machine=ChatMachine,
    framing=lambda _converted: StreamFraming(encode),
    error_body=error_body,
    error_status=error_status,
    list_models=list_models,
    show_model=show_model,
    limit_headers=limit_headers,
    request_losses=REQUEST_LOSSES,
    answer_losses=ANSWER_LOSSES,
)
