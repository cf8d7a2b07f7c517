"""Finds out which era of the protocol a server speaks, and remembers it.

A server of the newer era answers `server/discover`. A refusal of that request means the older era, unless it
says that the server knows newer versions only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.agents.mcp.channel import Channel, Stop
from bridge.agents.mcp.errors import McpError, McpStatus, RpcError
from bridge.agents.mcp.messages import UNSUPPORTED_VERSION
from bridge.agents.mcp.sessions import (
    HANDSHAKE_VERSIONS,
    MODERN_VERSIONS,
    HandshakeSession,
    ModernSession,
    Notice,
    Session,
)

#: Statuses that say something about the caller's rights, and nothing about the protocol.
_RIGHTS = frozenset((401, 403, 407))


class KnownEras:
    """The version that each server spoke last, by its address."""

    MOST = 1024

    def __init__(self) -> None:
        self._versions: dict[str, str] = {}

    def find(self, url: str) -> str | None:
        return self._versions.get(url)

    def keep(self, url: str, version: str) -> None:
        if len(self._versions) >= self.MOST:
            self._versions.clear()
        self._versions[url] = version

    def forget(self, url: str) -> None:
        self._versions.pop(url, None)


def begin_session(channel: Channel, known: KnownEras, stop: Stop, notice: Notice) -> Session:
    """A session that is ready for requests."""
    version = known.find(channel.url)
    if version is not None:
        try:
            return _begun(channel, version, stop, notice)
        except (RpcError, McpStatus):  # the server may have been updated since
            known.forget(channel.url)
    version = _discovered(channel, stop)
    session = _begun(channel, version, stop, notice)
    known.keep(channel.url, version)
    return session


def _begun(channel: Channel, version: str, stop: Stop, notice: Notice) -> Session:
    return (
        ModernSession(channel, version, notice)
        if version in MODERN_VERSIONS
        else _handshake(channel, stop, notice)
    )


def _handshake(channel: Channel, stop: Stop, notice: Notice) -> HandshakeSession:
    session = HandshakeSession(channel, notice)
    session.start(stop)
    return session


def _discovered(channel: Channel, stop: Stop) -> str:
    """The version to speak with a server that nobody has asked before."""
    try:
        result = ModernSession(channel).request("server/discover", {}, stop)
    except RpcError as error:
        if error.code != UNSUPPORTED_VERSION:
            return HANDSHAKE_VERSIONS[-1]
        supported = error.data.get("supported") if isinstance(error.data, Mapping) else None
    except McpStatus as error:
        if error.status in _RIGHTS:
            raise
        return HANDSHAKE_VERSIONS[-1]
    else:
        supported = result.get("supportedVersions")
    return _chosen(supported if isinstance(supported, list) else [], channel)


def _chosen(supported: list[Any], channel: Channel) -> str:
    common = [version for version in MODERN_VERSIONS if version in supported]
    if common:
        return common[-1]
    if supported and not any(version in HANDSHAKE_VERSIONS for version in supported):
        raise McpError(f"{channel.server} speaks no version of MCP that the bridge knows.")
    return HANDSHAKE_VERSIONS[-1]
