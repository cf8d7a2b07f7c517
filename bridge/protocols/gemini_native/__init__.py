"""Gemini's own API: Gemini CLI, Google's SDKs."""

from bridge.protocols.base import Protocol, TokenCounting
from bridge.protocols.embedding import Embedding
from bridge.protocols.gemini_native.converter import counted_to_gemini, to_gemini
from bridge.protocols.gemini_native.embedding import embedding_to_gemini
from bridge.protocols.gemini_native.framing import framing
from bridge.protocols.gemini_native.machine import NativeMachine
from bridge.protocols.gemini_native.schema import EmbeddingSchema, GenerateSchema, NativeCountSchema
from bridge.protocols.google_errors import error_body, error_status
from bridge.protocols.google_models import list_models, show_model


def _paths(method: str) -> tuple[str, ...]:
    """The paths in both API versions. `<path:…>`, since a model name may contain slashes."""
    return tuple(f"/{version}/models/<path:model>:{method}" for version in ("v1beta", "v1"))


PROTOCOL = Protocol(
    name="gemini_native",
    paths=_paths("<any(generateContent, streamGenerateContent):method>"),
    schema=GenerateSchema(),
    to_gemini=to_gemini,
    machine=NativeMachine,
    framing=framing,
    error_body=error_body,
    error_status=error_status,
    list_models=list_models,
    show_model=show_model,
    models_path="/v1beta/models",
    identifying_headers=frozenset({"x-goog-api-key", "x-goog-api-client"}),
    counting=TokenCounting(
        paths=_paths("countTokens"),
        schema=NativeCountSchema(),
        to_gemini=counted_to_gemini,
        body=lambda counted, _asked: {"totalTokens": counted.tokens},
    ),
    embedding=Embedding(
        paths=_paths("<any(embedContent, batchEmbedContents):method>"),
        schema=EmbeddingSchema(),
        to_gemini=embedding_to_gemini,
    ),
    unsupported_paths=_paths("<method>"),
    root="/v1beta",
)
