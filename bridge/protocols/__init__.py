"""The client protocols of the bridge. To add one, add a folder here and a line below.

The first is the default: it renders errors on paths that belong to no protocol.
"""

from bridge.protocols import (
    anthropic_messages,
    gemini_interactions,
    gemini_native,
    openai_chat,
    openai_responses,
)
from bridge.protocols.base import Protocol

PROTOCOLS: tuple[Protocol, ...] = (
    openai_chat.PROTOCOL,
    openai_responses.PROTOCOL,
    anthropic_messages.PROTOCOL,
    gemini_native.PROTOCOL,
    gemini_interactions.PROTOCOL,
)
