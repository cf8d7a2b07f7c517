"""What the answer to a Messages request needs to know of the request."""

from __future__ import annotations

from dataclasses import dataclass, field

from bridge.protocols.summary_seal import SummarySeal


@dataclass(frozen=True, slots=True)
class MessagesOptions:
    thinking: bool = False  #: the client asked for thinking, so it may be shown
    mcp_blocks: bool = False  #: the client named MCP servers, so it knows the blocks of their calls
    seal: SummarySeal = field(default_factory=SummarySeal)
    on_demand: bool = False  #: the client asked for a summary alone, with the field `compaction`
    manages_context: bool = False  #: the answer says which edits of the conversation were applied
