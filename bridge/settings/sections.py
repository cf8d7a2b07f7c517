"""The sections of the settings. A new setting needs one field here and its entry in `config/default.toml`."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from bridge.gemini.service_tier import SERVICE_TIERS, STANDARD
from bridge.settings.database_url import DatabaseUrl
from bridge.settings.lifecycle import REFUSE, REPLACE
from bridge.settings.value import (
    AUTO,
    OFF,
    MatchesPattern,
    Networks,
    OneOf,
    Range,
    Secret,
    WebAddress,
    WebAddressOrAuto,
    WebAddressOrOff,
)

Timeout = Annotated[float, Range(0.1, 3600)]
Duration = Annotated[float, Range(0, 86400)]
Count = Annotated[int, Range(1)]
LONGEST_NODE = 63
Node = Annotated[
    str,
    MatchesPattern(
        rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NODE - 1}}}",
        f": {AUTO}, or a name of at most {LONGEST_NODE} letters, digits, dots, dashes and underscores",
    ),
]

#: How much of a request a recording contains, from the least to the most: docs/RECORDER.md.
RECORDING_LEVELS = ("shape", "masked", "full")

GEMINI_ADDRESS = "https://generativelanguage.googleapis.com"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    host: str = "127.0.0.1"
    port: Annotated[int, Range(1, 65535)] = 41242
    public_url: Annotated[str, WebAddressOrAuto()] = AUTO
    workers: Count = 2
    own_core: bool = True
    threads: Annotated[int, Range(16)] = 128
    max_body_mb: Count = 64
    memory_mb: Count = 512
    head_timeout: Timeout = 15.0
    body_timeout: Timeout = 60.0
    send_timeout: Timeout = 60.0
    heartbeat: Annotated[float, Range(0.1, 10)] = 5.0
    graceful_timeout: Annotated[int, Range(4)] = 120
    trusted_proxies: Annotated[tuple[str, ...], Networks()] = ("127.0.0.0/8", "::1")
    node: Node = AUTO

    @property
    def node_name(self) -> str:
        """The name of this bridge: `node`, or else the name of this machine."""
        if self.node != AUTO:
            return self.node
        plain = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).lstrip("._-")
        return plain[:LONGEST_NODE] or "bridge"

    @property
    def address(self) -> str:
        """The address that clients use: `public_url`, or else the address on this machine."""
        if self.public_url != AUTO:
            return self.public_url.rstrip("/")
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    transport: str = AUTO
    base_url: Annotated[str, WebAddress()] = GEMINI_ADDRESS
    api_keys: Annotated[tuple[str, ...], Secret()] = field(default=(), repr=False)
    connect_timeout: Timeout = 10.0
    first_byte_timeout: Timeout = 300.0
    read_timeout: Timeout = 300.0
    answer_timeout: Annotated[float, Range(1, 86400)] = 3600.0
    attempts: Annotated[int, Range(1, 10)] = 3
    longest_wait: Annotated[float, Range(0, 60)] = 8.0
    key_cooldown: Duration = 60.0
    models_ttl: Duration = 300.0
    sdk_losses: Annotated[str, OneOf(("refuse", "rest"))] = "refuse"
    store: bool = False
    auto_tier: Annotated[str, OneOf(SERVICE_TIERS)] = STANDARD


@dataclass(frozen=True, slots=True)
class LogSettings:
    level: Annotated[str, OneOf(("debug", "info", "warning", "error"))] = "info"
    format: Annotated[str, OneOf((AUTO, "json", "text"))] = AUTO
    debug: bool = False


@dataclass(frozen=True, slots=True)
class AccountsSettings:
    days: Count = 400
    request_days: Count = 31
    max_mb: Count = 256


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    allowed_from: Annotated[tuple[str, ...], Networks()] = ("127.0.0.0/8", "::1")


@dataclass(frozen=True, slots=True)
class PagesSettings:
    allowed_from: Annotated[tuple[str, ...], Networks()] = ("127.0.0.0/8", "::1")


@dataclass(frozen=True, slots=True)
class OtelSettings:
    endpoint: Annotated[str, WebAddressOrOff()] = OFF

    @property
    def enabled(self) -> bool:
        return self.endpoint != OFF


@dataclass(frozen=True, slots=True)
class ResponsesSettings:
    dialect: Annotated[str, OneOf((AUTO, "bridge", "openai", "codex"))] = AUTO
    codex_marks: tuple[str, ...] = ("originator: codex*", "user-agent: codex*")
    bridge_marks: tuple[str, ...] = (
        "user-agent:",
        "user-agent: curl/*",
        "user-agent: wget/*",
        "user-agent: httpie/*",
        "user-agent: postmanruntime/*",
        "user-agent: python-requests/*",
        "user-agent: python-httpx/*",
        "user-agent: python-urllib/*",
        "user-agent: *aiohttp/*",
        "user-agent: werkzeug/*",
    )
    store_days: Count = 30
    store_mb: Count = 256


@dataclass(frozen=True, slots=True)
class MediaSettings:
    fetch: bool = False
    max_mb: Annotated[int, Range(1, 100)] = 20
    timeout: Annotated[float, Range(0.1, 60)] = 10.0


@dataclass(frozen=True, slots=True)
class McpSettings:
    allowed_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """The request cache. It is used only where a key, a model's row or a request switches it on."""

    lifetime: Annotated[float, Range(1, 30 * 86400)] = 3600.0
    max_mb: Count = 128
    scope: Annotated[str, OneOf(("key", "all"))] = "key"


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """The flight recorder. The mode `rules` records only what the rules of `flight record` name."""

    mode: Annotated[str, OneOf((OFF, "rules", "errors", "all"))] = OFF
    level: Annotated[str, OneOf(RECORDING_LEVELS)] = "shape"
    days: Annotated[int, Range(1, 365)] = 3
    megabytes: Count = 256


@dataclass(frozen=True, slots=True)
class AgentRunSettings:
    """The records of agents' runs."""

    record: Annotated[str, OneOf((OFF, "structure", "full"))] = "structure"
    days: Count = 30
    max_mb: Count = 256


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The settings for models outside models.toml."""

    retired: Annotated[str, OneOf((REPLACE, REFUSE))] = REPLACE


@dataclass(frozen=True, slots=True)
class StateSettings:
    dir: Path = Path("state")
    url: Annotated[str, DatabaseUrl()] = field(default="", repr=False)  #: empty: SQLite files in `dir`


@dataclass(frozen=True, slots=True)
class ConnectSettings:
    help: str = "Ask your administrator for a key."
    model: str = AUTO


@dataclass(frozen=True, slots=True)
class AccessSettings:
    open: bool = False  #: True: clients need no key, on any address
