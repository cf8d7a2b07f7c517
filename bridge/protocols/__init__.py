"""The client protocols of the bridge. To add one, add a folder here and a line below.

The first is the default: it renders errors on paths that belong to no protocol.
"""

from dataclasses import replace

from bridge.protocols import (
    anthropic_messages,
    gemini_interactions,
    gemini_native,
    openai_chat,
    openai_completions,
    openai_embeddings,
    openai_responses,
)
from bridge.protocols.base import Protocol

PROTOCOLS: tuple[Protocol, ...] = (
    replace(openai_chat.PROTOCOL, embedding=openai_embeddings.EMBEDDING),
    openai_responses.PROTOCOL,
    anthropic_messages.PROTOCOL,
    gemini_native.PROTOCOL,
    gemini_interactions.PROTOCOL,
    openai_completions.PROTOCOL,
)
