"""Translates the configuration of LiteLLM's proxy. What cannot be carried is listed by name, never by value.

A deployment becomes an upstream (deployments with the same server and key share one) and an alias.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bridge.migration.litellm_providers import PROVIDERS, Provider, base_url, provider_and_model
from bridge.migration.litellm_reasons import reason
from bridge.migration.litellm_settings import local_settings
from bridge.migration.yaml_file import YamlFile, YamlPath
from bridge.settings import SettingsError
from bridge.settings.value import WebAddress

FROM_ENVIRONMENT = "os.environ/"
#: What people write where a server needs no key.
NO_KEY = frozenset(("", "none", "empty"))
CHAT_MODES = frozenset(("", "chat", "completion", "responses"))
EMBEDDING = "embedding"


@dataclass(frozen=True, slots=True)
class NotCarried:
    name: str
    line: int
    why: str


@dataclass(slots=True)
class Translated:
    upstreams: list[dict[str, Any]] = field(default_factory=list)
    aliases: list[dict[str, Any]] = field(default_factory=list)
    embeddings: list[dict[str, Any]] = field(default_factory=list)
    local: dict[str, dict[str, Any]] = field(default_factory=dict)
    not_carried: list[NotCarried] = field(default_factory=list)


class _NoCounterpart(Exception):
    """A deployment that the bridge cannot have."""


def translated(file: YamlFile) -> Translated:
    if not isinstance(file.values, dict) or not isinstance(file.values.get("model_list"), list):
        raise SettingsError("the file has no model_list; is it the config.yaml of LiteLLM's proxy?")
    if lines := sorted(set(_literal_secrets(file))):
        raise SettingsError(
            f"line {', '.join(map(str, lines))}: a secret stands in the file. Write it into an environment "
            f"variable, and {FROM_ENVIRONMENT}NAME in its place"
        )
    translation = _Translation(file)
    translation.run()
    return translation.result


# --- secrets -------------------------------------------------------------------------------------------


def _literal_secrets(file: YamlFile) -> Iterator[int]:
    for number, deployment in enumerate(file.values["model_list"]):
        parameters = deployment.get("litellm_params") if isinstance(deployment, dict) else None
        for name, value in parameters.items() if isinstance(parameters, dict) else ():
            if isinstance(value, str) and _is_secret(name, value):
                yield file.lines["model_list", number, "litellm_params", name]


def _is_secret(name: str, value: str) -> bool:
    if value.startswith(FROM_ENVIRONMENT):
        return False
    if name == "api_key":
        return value.strip().lower() not in NO_KEY
    if name == "vertex_credentials":
        return value.lstrip().startswith("{")
    return name in ("api_base", "base_url") and "@" in value


# --- deployments ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Translation:
    file: YamlFile
    result: Translated = field(default_factory=Translated)
    carried: set[YamlPath] = field(default_factory=set)
    #: The rows of each name in model_list: the alias, and the upstreams that serve it.
    names: dict[str, dict[str, Any]] = field(default_factory=dict)

    def run(self) -> None:
        for number, deployment in enumerate(self.file.values["model_list"]):
            path = ("model_list", number)
            try:
                self._deployment(path, deployment)
            except _NoCounterpart as problem:
                self._refuse(path, deployment, str(problem))
        self._group_aliases()
        settings = local_settings(self.file.values)
        self.result.local = settings.sections
        self.carried |= settings.carried
        self._list_rest()

    def _deployment(self, path: YamlPath, deployment: Any) -> None:
        parameters = deployment.get("litellm_params") if isinstance(deployment, dict) else None
        if not isinstance(parameters, dict) or not isinstance(parameters.get("model"), str):
            raise _NoCounterpart("it has no litellm_params with a model")
        name, (provider, model) = str(deployment.get("model_name")), provider_and_model(parameters["model"])
        known = PROVIDERS.get(provider)
        if known is None or (known.kind == "vertex" and not model.startswith("gemini")):
            raise _NoCounterpart("the bridge has no upstream for this provider and model")
        if "*" in model or name == "*":
            raise _NoCounterpart("the bridge cannot derive the model from a pattern; name each model")
        mode = _mode(deployment, model)
        if mode not in (*CHAT_MODES, EMBEDDING):
            raise _NoCounterpart(f"the bridge has no models of the mode {mode[:32]}")
        row = self._upstream(provider, known, parameters)
        self._alias(name, model, row, mode)
        carried = ["model", "api_key", "api_base", "base_url", *(each for each in ("weight",) if each in row)]
        carried += _VERTEX if known.kind == "vertex" else ()
        self.carried.add((*path, "model_name"))
        self.carried.update((*path, "litellm_params", each) for each in carried if each in parameters)
        self.carried.add((*path, "model_info", "mode"))

    def _upstream(self, provider: str, known: Provider, parameters: Mapping[str, Any]) -> dict[str, Any]:
        row = _upstream_row(provider, known, parameters)
        for each in self.result.upstreams:
            if all(each.get(key) == row.get(key) for key in _IDENTITY):
                return each
        base = known.dialect or known.kind
        taken = sum(_base(each) == base for each in self.result.upstreams)
        row = {"name": base if not taken else f"{base}-{taken + 1}", **row}
        self.result.upstreams.append(row)
        return row

    def _alias(self, name: str, model: str, upstream: dict[str, Any], mode: str) -> None:
        found = self.names.get(name)
        if found is None:
            rows = self.result.embeddings if mode == EMBEDDING else self.result.aliases
            alias = {"match": [name], "model": model, "upstream": upstream["name"]}
            rows.append(alias)
            self.names[name] = alias
        elif found["model"] != model:
            raise _NoCounterpart("a name has one model in the bridge, and an earlier entry named another")
        elif found.get("upstream") != upstream["name"]:
            self._share(found, upstream)

    def _share(self, alias: dict[str, Any], upstream: dict[str, Any]) -> None:
        """Let several upstreams serve the model of an alias."""
        first = alias.pop("upstream", None)
        for row in self.result.upstreams:
            if row["name"] in (first, upstream["name"]):
                row["models"] = list(dict.fromkeys((*row.get("models", ()), alias["model"])))

    def _group_aliases(self) -> None:
        groups = (self.file.values.get("router_settings") or {}).get("model_group_alias")
        for name, group in groups.items() if isinstance(groups, dict) else ():
            target = group.get("model") if isinstance(group, dict) else group
            if target in self.names:
                self.names[target]["match"].append(name)
                self.carried.add(("router_settings", "model_group_alias", name))

    # --- the list of what is not carried ---------------------------------------------------------------

    def _refuse(self, path: YamlPath, deployment: Any, why: str) -> None:
        name = deployment.get("model_name") if isinstance(deployment, dict) else None
        shown = _shown(path) + (f" ({str(name)[:64]!r})" if name else "")
        self.result.not_carried.append(NotCarried(shown, self.file.lines[path], why))
        self.carried.add(path)

    def _list_rest(self) -> None:
        """Each part of the file that was not carried, as far up as nothing inside it was."""
        partly = {path[:length] for path in self.carried for length in range(len(path))}
        partly |= _SECTIONS
        done = set(self.carried)
        for path, line in self.file.lines.items():
            above = any(path[:length] in done for length in range(1, len(path) + 1))
            if path and not above and path not in partly:
                self.result.not_carried.append(NotCarried(_shown(path), line, reason(path)))
                done.add(path)
        self.result.not_carried.sort(key=lambda each: each.line)


#: The parts of the file that are listed setting by setting.
_SECTIONS = frozenset(
    (name,) for name in ("model_list", "router_settings", "litellm_settings", "general_settings")
)
_VERTEX = ("vertex_project", "vertex_location", "vertex_credentials")
_IDENTITY = ("kind", "dialect", "base_url", "api_key", "project", "location", "credentials", "weight")


def _base(row: Mapping[str, Any]) -> str:
    return str(row.get("dialect") or row["kind"])


def _mode(deployment: Mapping[str, Any], model: str) -> str:
    info = deployment.get("model_info")
    mode = info.get("mode") if isinstance(info, dict) else None
    return str(mode or (EMBEDDING if EMBEDDING in model else ""))


def _upstream_row(provider: str, known: Provider, parameters: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": known.kind}
    if known.dialect:
        row["dialect"] = known.dialect
    address = parameters.get("api_base") or parameters.get("base_url")
    if address is not None:
        row["base_url"] = base_url(provider, _literal("api_base", address))
        if not WebAddress().accepts(row["base_url"]):
            raise _NoCounterpart("its api_base is not an http:// or https:// address")
    elif known.needs_address:
        raise _NoCounterpart("it has no api_base")
    if key := _key(parameters.get("api_key"), known):
        row["api_key"] = key
    for name in _VERTEX if known.kind == "vertex" else ():
        if name in parameters:
            row[name.removeprefix("vertex_")] = _literal(name, parameters[name])
    weight = parameters.get("weight")
    if isinstance(weight, int) and 1 <= weight <= 1000:
        row["weight"] = weight
    return row


def _key(written: Any, known: Provider) -> str:
    if written is None:
        return f"env:{known.key}" if known.key else ""
    if not str(written).startswith(FROM_ENVIRONMENT):
        return ""
    return f"env:{str(written).removeprefix(FROM_ENVIRONMENT)}"


def _literal(name: str, value: Any) -> str:
    if not isinstance(value, str) or value.startswith(FROM_ENVIRONMENT):
        raise _NoCounterpart(
            f"upstreams.toml reads only keys from the environment; write {name} into the file"
        )
    return value


def _shown(path: YamlPath) -> str:
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each[:64]}" for each in path).lstrip(".")
