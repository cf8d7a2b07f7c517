"""OpenAI's legacy Completions: the continuation of a prompt, or the text between two, as editors need it."""

from bridge.protocols.base import Protocol, StreamFraming
from bridge.protocols.openai_chunks import encode
from bridge.protocols.openai_completions.converter import to_gemini
from bridge.protocols.openai_completions.losses import ANSWER_LOSSES, REQUEST_LOSSES
from bridge.protocols.openai_completions.machine import CompletionsMachine
from bridge.protocols.openai_completions.schema import CompletionsSchema
from bridge.protocols.openai_errors import error_body, error_status
from bridge.protocols.openai_limits import limit_headers
from bridge.protocols.openai_models import list_models, show_model

PROTOCOL = Protocol(
    name="openai_completions",
    paths=("/v1/completions",),
    schema=CompletionsSchema(),
    to_gemini=to_gemini,
    machine=CompletionsMachine,
    framing=lambda _asked: StreamFraming(encode),
    error_body=error_body,
    error_status=error_status,
    list_models=list_models,
    show_model=show_model,
    limit_headers=limit_headers,
    request_losses=REQUEST_LOSSES,
    answer_losses=ANSWER_LOSSES,
)
