"""The upstreams by name: the rows of `config/upstreams.toml`, and the row `default` of the other settings.

The file holds no secret: `api_key` names the variable or the systemd credential that holds the key. This
module knows no upstream, so it does not check `kind` and `dialect`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from bridge.settings.google import CodeAssistSettings, Location, Project, VertexSettings
from bridge.settings.references import CREDENTIAL, ENVIRONMENT, from_credential, from_environment
from bridge.settings.sections import Duration, Timeout, UpstreamSettings
from bridge.settings.source import label, read_toml
from bridge.settings.value import (
    AUTO,
    MatchesPattern,
    OneOf,
    Range,
    Secret,
    SettingsError,
    Shape,
    WebAddress,
    read_table,
    shape_of,
    shapes,
)

FILE = "upstreams.toml"
DEFAULT = "default"  #: the upstream of the section [upstream]

Name = Annotated[
    str, MatchesPattern(r"[a-z0-9][a-z0-9_-]{0,31}", " of at most 32 lower-case letters, digits, - and _")
]
#: For each tool, other spellings of its parameters and the parameters that they mean.
ParameterMap = Mapping[str, Mapping[str, str]]


#: Fields of a row that do not change how the server answers: the request contains what they change, or they
#: only say how the server is reached, or they apply to the answer.
NOT_OF_SERVER = frozenset(
    (
        *("name", "origin", "api_keys", "models", "listed", "weight"),
        *("tools", "soft_switch", "preserve_context", "parameter_map", "think_opens"),
        *("connect_timeout", "first_byte_timeout", "read_timeout", "answer_timeout", "key_cooldown"),
        *("proxy", "ca", "credentials"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamRow:
    """One upstream. `config/upstreams.toml` describes the values that the file may set."""

    name: Name
    kind: str
    origin: str = "upstream.transport is"  #: for messages, which continue with the kind
    base_url: Annotated[str, WebAddress()] = ""  #: empty: the address of the kind
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    models: tuple[str, ...] = ()  #: patterns of the models that it serves
    weight: Annotated[int, Range(1, 1000)] = 1
    dialect: str = "openai"
    tools: Annotated[str, OneOf(("native", "text"))] = "native"
    preserve_context: bool = True
    parameter_map: ParameterMap = field(default_factory=dict)
    think: Annotated[str, OneOf(("show", "drop", "off"))] = ""  #: empty: as the kind needs
    think_opens: Annotated[str, OneOf(("model", "template"))] = "model"
    soft_switch: str = ""
    connect_timeout: Timeout = 10.0
    first_byte_timeout: Timeout = 300.0
    read_timeout: Timeout = 300.0
    answer_timeout: Annotated[float, Range(1, 86400)] = 3600.0
    key_cooldown: Duration = 60.0
    proxy: Annotated[str, WebAddress()] = ""  #: empty: the proxy of the environment
    ca: Path | None = None  #: None: the CA bundle of the environment
    project: Project = AUTO
    location: Location = "global"
    credentials: Path = Path(AUTO)
    listed: tuple[str, ...] = ()  #: the models to list; empty: ask the upstream

    @property
    def location_in_file(self) -> str:
        return self.origin.partition(": kind is")[0]

    @property
    def server_settings(self) -> tuple[str, ...]:
        """What decides, beside the request, how the server of this row answers. A new field is part of it."""
        names = (each.name for each in fields(self) if each.name not in NOT_OF_SERVER)
        return tuple(str(getattr(self, name)) for name in names)

    @property
    def key_setting(self) -> str:
        """The name under which the operator sets the keys."""
        return "GEMINI_API_KEY" if self.name == DEFAULT else "api_key"

    @property
    def place(self) -> str:
        """The row for messages: the text that they begin with."""
        return f"{self.origin} {self.kind}"


# --- the row of the other settings --------------------------------------------------------------------


def default_row(
    kind: str, upstream: UpstreamSettings, vertex: VertexSettings, code_assist: CodeAssistSettings
) -> UpstreamRow:
    """The upstream of [upstream], with the section of its kind."""
    common: dict[str, Any] = {"name": DEFAULT, "kind": kind, **_inherited(upstream)}
    if kind == "vertex":
        return UpstreamRow(
            **common,
            base_url="" if vertex.base_url == AUTO else vertex.base_url,
            project=vertex.project,
            location=vertex.location,
            credentials=vertex.credentials,
            listed=vertex.models,
        )
    if kind == "code_assist":
        return UpstreamRow(
            **common,
            base_url=code_assist.base_url,
            project=code_assist.project,
            credentials=code_assist.credentials,
            listed=code_assist.models,
        )
    return UpstreamRow(**common, base_url=upstream.base_url, api_keys=upstream.api_keys)


def _inherited(upstream: UpstreamSettings) -> dict[str, Any]:
    """The values of [upstream] that apply to a row which does not set them."""
    names = ("connect_timeout", "first_byte_timeout", "read_timeout", "answer_timeout", "key_cooldown")
    return {name: getattr(upstream, name) for name in names}


# --- upstreams.toml -----------------------------------------------------------------------------------

NOT_IN_FILE = ("origin", "api_keys", "listed")
TABLE: Mapping[str, Shape] = {"upstream": shape_of(list[dict[str, Any]])}
KEYS = shape_of(Annotated[tuple[str, ...], Secret()])


def _row_shapes() -> dict[str, Shape]:
    own = {name: shape for name, shape in shapes(UpstreamRow).items() if name not in NOT_IN_FILE}
    return {**own, "api_key": KEYS}


ROW: Mapping[str, Shape] = _row_shapes()
REQUIRED = ("name", "kind")


def load_upstreams(
    path: Path, environ: Mapping[str, str], inherited: UpstreamSettings
) -> tuple[UpstreamRow, ...]:
    """The rows of the file; none if there is no file."""
    if not path.exists():
        return ()
    where = label(path)
    table = read_table(where, TABLE, read_toml(path))
    rows: dict[str, UpstreamRow] = {}
    for number, written in enumerate(table.get("upstream", ()), start=1):
        row = _row(f"{where}: [[upstream]] {number}", written, environ, inherited)
        if row.name in rows:
            raise SettingsError(
                f"{where}: [[upstream]] {number}: name: there are two upstreams named {row.name}; "
                "give each upstream a name of its own"
            )
        rows[row.name] = row
    return tuple(rows.values())


def _row(
    where: str, written: dict[str, Any], environ: Mapping[str, str], inherited: UpstreamSettings
) -> UpstreamRow:
    values = read_table(where, ROW, written)
    for name in REQUIRED:
        if name not in values:
            raise SettingsError(f"{where}: {name} is missing")
    if values["name"] == DEFAULT:
        raise SettingsError(
            f"{where}: name: {DEFAULT} is the upstream of the section [upstream] in default.toml; "
            "choose another name"
        )
    references = values.pop("api_key", ())
    if "base_url" in values:
        values["base_url"] = values["base_url"].rstrip("/")
    return UpstreamRow(
        **{
            **_inherited(inherited),
            **values,
            "origin": f"{where}: kind is",
            "api_keys": tuple(_keys(f"{where}: api_key", references, environ)),
        }
    )


# --- keys ---------------------------------------------------------------------------------------------


def _keys(where: str, references: tuple[str, ...], environ: Mapping[str, str]) -> Iterator[str]:
    for reference in references:
        if reference.startswith(ENVIRONMENT):
            found = from_environment(where, reference.removeprefix(ENVIRONMENT), environ)
        elif reference.startswith(CREDENTIAL):
            found = from_credential(where, reference.removeprefix(CREDENTIAL), environ)
        else:  # the message does not repeat the text, which may be a key
            raise SettingsError(
                f"{where} must not contain a key: write the key into an environment variable and "
                'name it here, "env:NAME", or give systemd a credential: "credential:name"'
            )
        yield from KEYS.read(where, found)
