"""One conversation with a server, in the form of either era of the protocol.

Until 2025-11-25 a session begins with a handshake, and the server may give it an id that every request
repeats. From 2026-07-28 on there is no session: each request says who asks, and in which version.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import suppress

from bridge import __version__
from bridge.agents.mcp import messages
from bridge.agents.mcp.channel import Channel, Headers, Reply, Stop
from bridge.agents.mcp.errors import McpError, McpStopped, McpTimeout, SessionGone
from bridge.agents.mcp.param_headers import header_value
from bridge.gemini.types import EMPTY, JsonObject

LATEST_HANDSHAKE = "2025-11-25"
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", LATEST_HANDSHAKE)
LATEST_MODERN = "2026-07-28"
MODERN_VERSIONS = (LATEST_MODERN,)

CLIENT = {"name": "gemini-bridge", "version": __version__}
VERSION_HEADER, SESSION_HEADER = "MCP-Protocol-Version", "Mcp-Session-Id"
META = "io.modelcontextprotocol/"
LONGEST_SESSION_ID = 1024

#: Takes what a server says about its progress.
Progress = Callable[[str], None]
#: Takes the method of every other notification.
Notice = Callable[[str], None]


def ignore(_text: str) -> None:
    pass


class Session:
    def __init__(self, channel: Channel, notice: Notice = ignore) -> None:
        self.channel = channel
        self._notice = notice
        self._numbers = itertools.count(1)

    def request(
        self,
        method: str,
        params: JsonObject,
        stop: Stop,
        headers: Headers = EMPTY,
        progress: Progress = ignore,
    ) -> JsonObject:
        """The result. Raises RpcError for an error of the server, and another McpError for all else."""
        raise NotImplementedError

    @property
    def must_be_ended(self) -> bool:
        return False

    def end(self) -> None:
        """Tell the server that no request follows. Raises no McpError."""

    def _asked(self, message: JsonObject) -> None:
        """The server asks something in the middle of its answer. Servers of 2026-07-28 may not."""

    def _exchange(
        self, method: str, params: JsonObject, headers: Headers, stop: Stop, progress: Progress = ignore
    ) -> tuple[JsonObject, Reply]:
        number = next(self._numbers)
        meta = {**params.get("_meta", {}), "progressToken": number}
        body = messages.request(number, method, {**params, "_meta": meta})
        with self.channel.send(body, headers, stop) as reply:
            try:
                self._check(reply)
                return self._result(reply, number, progress), reply
            except (McpStopped, McpTimeout):
                self._stopped(number)
                raise

    def _stopped(self, number: int) -> None:
        """Nobody wants the answer to this request any more."""

    def _check(self, reply: Reply) -> None:
        if reply.status >= 400:
            raise reply.failure()
        reply.check_status()

    def _result(self, reply: Reply, number: int, progress: Progress) -> JsonObject:
        for message in reply.messages():
            if "method" not in message:
                return messages.result_in(message, number, self.channel.server)
            if "id" in message:
                self._asked(message)
            else:
                self._told(message, number, progress)
        raise McpError(f"{self.channel.server} ended its answer without a result.")

    def _told(self, message: JsonObject, number: int, progress: Progress) -> None:
        params = message.get("params")
        if message["method"] != "notifications/progress":
            self._notice(str(message["method"]))
        elif isinstance(params, dict) and params.get("progressToken") == number:
            progress(_progress_text(params))


def _progress_text(params: JsonObject) -> str:
    done, total, text = (params.get(name) for name in ("progress", "total", "message"))
    counted = f"{done}/{total}" if isinstance(total, int | float) else f"{done}"
    return f"{counted} {text}" if isinstance(text, str) and text else counted


class ModernSession(Session):
    def __init__(self, channel: Channel, version: str = LATEST_MODERN, notice: Notice = ignore) -> None:
        super().__init__(channel, notice)
        self.version = version

    def request(
        self,
        method: str,
        params: JsonObject,
        stop: Stop,
        headers: Headers = EMPTY,
        progress: Progress = ignore,
    ) -> JsonObject:
        routing = {VERSION_HEADER: self.version, "Mcp-Method": method}
        if "name" in params:
            routing["Mcp-Name"] = header_value(str(params["name"]))
        meta = {f"{META}protocolVersion": self.version, f"{META}clientInfo": CLIENT}
        meta[f"{META}clientCapabilities"] = {}
        result, _ = self._exchange(method, {**params, "_meta": meta}, {**headers, **routing}, stop, progress)
        return result


class HandshakeSession(Session):
    def __init__(self, channel: Channel, notice: Notice = ignore) -> None:
        super().__init__(channel, notice)
        self.version = LATEST_HANDSHAKE
        self._id = ""
        self._starts = 0
        self._lock = threading.Lock()

    def start(self, stop: Stop) -> None:
        with self._lock:
            self._start(stop)

    def _start(self, stop: Stop) -> None:
        params = {"protocolVersion": LATEST_HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT}
        self._id = ""
        result, reply = self._exchange("initialize", params, {VERSION_HEADER: LATEST_HANDSHAKE}, stop)
        version, session = result.get("protocolVersion"), reply.field(SESSION_HEADER)
        if version not in HANDSHAKE_VERSIONS:
            raise McpError(f"{self.channel.server} speaks a version of MCP that the bridge does not know.")
        if len(session) > LONGEST_SESSION_ID or not session.isascii():
            raise McpError(f"{self.channel.server} sent a session id that is not valid.")
        self.version, self._id = version, session
        self._starts += 1
        self._notify(messages.notification("notifications/initialized"), stop)

    def request(
        self,
        method: str,
        params: JsonObject,
        stop: Stop,
        headers: Headers = EMPTY,
        progress: Progress = ignore,
    ) -> JsonObject:
        starts = self._starts
        try:
            return self._exchange(method, params, self._headers(), stop, progress)[0]
        except SessionGone:
            self._start_again(starts, stop)
        return self._exchange(method, params, self._headers(), stop, progress)[0]

    def _start_again(self, starts: int, stop: Stop) -> None:
        """Begin a new session, unless another call has done so since."""
        with self._lock:
            if self._starts == starts:
                self._start(stop)

    def _headers(self) -> dict[str, str]:
        headers = {VERSION_HEADER: self.version}
        return {**headers, SESSION_HEADER: self._id} if self._id else headers

    def _check(self, reply: Reply) -> None:
        if reply.status == 404 and self._id:
            raise SessionGone(f"{self.channel.server} does not know the session any more.")
        super()._check(reply)

    def _asked(self, message: JsonObject) -> None:
        """Answer a ping. Everything else needs a capability that the bridge does not declare."""
        number, method = message["id"], str(message["method"])
        self._notify(messages.answer(number, {}) if method == "ping" else messages.refusal(number, method))

    def _stopped(self, number: int) -> None:
        """In this era a closed connection alone does not stop the server."""
        self._notify(messages.notification("notifications/cancelled", {"requestId": number}))

    @property
    def must_be_ended(self) -> bool:
        return bool(self._id)

    def end(self) -> None:
        if self._id:
            self._notify(b"", method="DELETE")

    def _notify(self, body: bytes, stop: Stop = lambda: False, method: str = "POST") -> None:
        """Send what has no answer. What becomes of it does not matter to the call."""
        with suppress(McpError), self.channel.send(body, self._headers(), stop, method):
            pass
