"""What the answer to a Messages request needs to know of the request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MessagesOptions:
    thinking: bool = False  #: the client asked for thinking, so it may be shown
    manages_context: bool = False  #: the answer says which edits of the conversation were applied
