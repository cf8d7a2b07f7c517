"""OpenAI Responses: Codex, the OpenAI SDKs, the AI SDK."""

from bridge.errors import LONGEST_RETRY_AFTER
from bridge.protocols.base import Protocol
from bridge.protocols.openai_errors import error_body, error_status
from bridge.protocols.openai_limits import limit_headers
from bridge.protocols.openai_models import list_models, show_model
from bridge.protocols.openai_responses.compaction import COMPACTION
from bridge.protocols.openai_responses.conversations import CONVERSATIONS
from bridge.protocols.openai_responses.converter import to_gemini
from bridge.protocols.openai_responses.counting import COUNTING
from bridge.protocols.openai_responses.framing import framing
from bridge.protocols.openai_responses.losses import ANSWER_LOSSES, REQUEST_LOSSES
from bridge.protocols.openai_responses.machine import ResponsesMachine
from bridge.protocols.openai_responses.schema import ResponsesSchema
from bridge.protocols.openai_responses.storing import STORING

PROTOCOL = Protocol(
    name="openai_responses",
    paths=("/v1/responses",),
    schema=ResponsesSchema(),
    to_gemini=to_gemini,
    machine=ResponsesMachine,
    framing=framing,
    error_body=error_body,
    error_status=error_status,
    list_models=list_models,
    show_model=show_model,
    counting=COUNTING,
    storing=STORING,
    conversations=CONVERSATIONS,
    compaction=COMPACTION,
    limit_headers=limit_headers,
    max_retry_after=LONGEST_RETRY_AFTER,  # without a delay Codex shows the error
    request_losses=REQUEST_LOSSES,
    answer_losses=ANSWER_LOSSES,
)
