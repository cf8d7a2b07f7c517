"""Google's Interactions API: the newer samples of Google's SDKs."""

from bridge.protocols.base import Protocol
from bridge.protocols.gemini_interactions.converter import to_gemini
from bridge.protocols.gemini_interactions.losses import ANSWER_LOSSES, REQUEST_LOSSES
from bridge.protocols.gemini_interactions.machine import InteractionsMachine, framing
from bridge.protocols.gemini_interactions.schema import InteractionSchema
from bridge.protocols.gemini_interactions.storing import STORING
from bridge.protocols.google_errors import error_body, error_status
from bridge.protocols.google_models import list_models, show_model

PROTOCOL = Protocol(
    name="gemini_interactions",
    paths=("/v1beta/interactions", "/v1/interactions"),  # older SDKs use the first, newer ones the second
    schema=InteractionSchema(),
    to_gemini=to_gemini,
    machine=InteractionsMachine,
    framing=framing,
    error_body=error_body,
    error_status=error_status,
    list_models=list_models,
    show_model=show_model,
    models_path="/v1beta/models",
    storing=STORING,
    request_losses=REQUEST_LOSSES,
    answer_losses=ANSWER_LOSSES,
)
