"""Finds the conversation that a request belongs to, as far as the client names it.

Gemini caches prompt prefixes per key and session, so all requests of one conversation should use one key and
one session. The client chooses the name freely. The bridge uses the name only to choose between equivalent
keys, never to grant access. The id is a digest of the name and of its owner.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import dropwhile, takewhile
from typing import Any, NamedTuple

import orjson

from bridge.gemini.types import MODEL, Content, FileData, GenerateRequest, InlineData, JsonObject, Part

LONGEST_NAME = 128
LONGEST_METADATA = 4096
#: Characters of each part that the digest covers: enough to tell two conversations apart.
MAX_DIGESTED = 1 << 14
DIGEST_CHARACTERS = 32

#: The headers of a session and of an agent in it: Claude Code's, Codex's, and those of opencode and pi.
SESSION_HEADERS = (
    ("X-Claude-Code-Session-Id", "X-Claude-Code-Agent-Id"),
    ("Session-Id", "Thread-Id"),
    ("X-Session-Affinity", None),
    ("X-Session-Id", None),
)
_SESSION_MARK = "_session_"
_NOT_PRINTABLE = re.compile(r"[^!-~]+")


class Session(NamedTuple):
    """A session as the client names it. Sub-agents share the session of their parent agent, but have their
    own history."""

    id: str
    agent: str | None = None


def session_in_headers(headers: Mapping[str, str]) -> Session | None:
    for session_header, agent_header in SESSION_HEADERS:
        if session := _printable(headers.get(session_header)):
            agent = _printable(headers.get(agent_header)) if agent_header else None
            return Session(session, None if agent == session else agent)
    return None


def session_in_metadata(body: JsonObject) -> Session | None:
    """Claude's `metadata.user_id`: `user_…_session_…`, or an object in a string."""
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    if not isinstance(user, str) or len(user) > LONGEST_METADATA:
        return None
    named = _session_id(user) if user.startswith("{") else user.partition(_SESSION_MARK)[2]
    session = _printable(named)
    return Session(session) if session else None


def _session_id(user: str) -> Any:
    try:
        parsed = orjson.loads(user)
    except orjson.JSONDecodeError:
        return None
    return parsed.get("session_id") if isinstance(parsed, dict) else None


def conversation_id(
    owner: str, session: Session | None, body: JsonObject, chain: str, request: GenerateRequest
) -> str:
    """The id of the conversation, from the most reliable source available. `chain` is the conversation of the
    stored answer that the request continues."""
    if session is not None:
        return session_conversation(owner, session)
    if key := _text(body.get("prompt_cache_key")):
        return digest(owner, "prompt_cache_key", key)
    if (session := session_in_metadata(body)) is not None:
        return digest(owner, "session", session.id, "")
    return chain or digest(owner, "opening", *_opening_texts(request))


def session_conversation(owner: str, session: Session) -> str:
    return digest(owner, "session", session.id, session.agent or "")


def digest(owner: str, *words: str) -> str:
    """A digest of the words. Each word is prefixed with its length, so that different lists never collide."""
    result = sha256()
    for word in (owner, *words):
        encoded = word.encode("utf-8", "surrogatepass")
        result.update(b"%d:" % len(encoded))
        result.update(encoded)
    return result.hexdigest()[:DIGEST_CHARACTERS]


def _opening_texts(request: GenerateRequest) -> Iterator[str]:
    """The texts of the instruction and of the user's first turn, which stay the same while a conversation
    grows."""
    if request.system is not None:
        yield from map(_digest_text, request.system.parts)
    for content in takewhile(_is_user_turn, dropwhile(_is_model_turn, request.contents)):
        yield from map(_digest_text, content.parts)


def _is_model_turn(content: Content) -> bool:
    return content.role == MODEL


def _is_user_turn(content: Content) -> bool:
    return content.role != MODEL


def _digest_text(part: Part) -> str:
    match part.data:
        case str(text):
            return text[:MAX_DIGESTED]
        case InlineData(data=data):
            return data[:MAX_DIGESTED]
        case FileData(uri=uri):
            return uri
    return type(part.data).__name__


def _text(value: Any) -> str:
    return value[:MAX_DIGESTED] if isinstance(value, str) else ""


def _printable(value: Any) -> str | None:
    """The text without characters that could corrupt a log line, or None if nothing is left."""
    text = value if isinstance(value, str) else ""
    return _NOT_PRINTABLE.sub("", text[: 4 * LONGEST_NAME])[:LONGEST_NAME] or None
