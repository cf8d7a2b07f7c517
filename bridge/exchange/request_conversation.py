"""Gives a request the id of its conversation."""

from __future__ import annotations

from dataclasses import replace

from bridge.gemini.conversation import Session, conversation_id, session_in_metadata
from bridge.gemini.types import JsonObject
from bridge.observe.record import Record
from bridge.protocols.base import Caller, ConvertedRequest


def in_conversation(
    asked: ConvertedRequest, body: JsonObject, caller: Caller, record: Record
) -> ConvertedRequest:
    """The request with the id of its conversation; the record gets the id too."""
    session = Session(record.session, record.agent) if record.session else None
    conversation = conversation_id(caller.owner, session, body, caller.chain, asked.request)
    record.conversation = conversation
    if session is None and (named := session_in_metadata(body)):
        record.session, record.agent = named
    return replace(asked, request=replace(asked.request, conversation=conversation))
