"""Imports point one way: there are no cycles, and a layer can be read without the layers above it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "bridge"

#: Each layer may import only itself and the layers in its row.
MAY_IMPORT: dict[str, set[str]] = {
    "bridge": set(),
    "bridge.errors": {"bridge"},
    "bridge.ids_and_clock": set(),
    "bridge.interruption": {"bridge.errors"},
    "bridge.periodic_thread": set(),
    "bridge.rate_limit_status": set(),
    "bridge.socket_timeouts": set(),
    "bridge.gemini": {"bridge.errors"},
    "bridge.text_tools": {"bridge.errors", "bridge.gemini"},
    "bridge.settings": {"bridge.gemini"},
    "bridge.guards": {"bridge.gemini", "bridge.settings"},
    "bridge.context": {"bridge.gemini", "bridge.settings"},
    "bridge.state": {"bridge.ids_and_clock", "bridge.periodic_thread", "bridge.settings"},
    "bridge.experiment_report": {"bridge.settings", "bridge.state"},
    "bridge.protocols": {
        "bridge.errors",
        "bridge.gemini",
        "bridge.ids_and_clock",
        "bridge.interruption",
        "bridge.rate_limit_status",
    },
    "bridge.upstream": {
        "bridge",
        "bridge.errors",
        "bridge.gemini",
        "bridge.settings",
        "bridge.socket_timeouts",
    },
    "bridge.observe": {
        "bridge",
        "bridge.errors",
        "bridge.gemini",
        "bridge.ids_and_clock",
        "bridge.periodic_thread",
        "bridge.settings",
        "bridge.state",
    },
    "bridge.recorder": {
        "bridge",
        "bridge.gemini",
        "bridge.guards",
        "bridge.ids_and_clock",
        "bridge.observe",
        "bridge.periodic_thread",
        "bridge.settings",
        "bridge.state",
    },
    "bridge.access": {
        "bridge.errors",
        "bridge.gemini",
        "bridge.interruption",
        "bridge.observe",
        "bridge.periodic_thread",
        "bridge.rate_limit_status",
        "bridge.settings",
        "bridge.state",
    },
    "bridge.fetch": {"bridge", "bridge.errors", "bridge.gemini", "bridge.settings"},
    "bridge.agents": {
        "bridge",
        "bridge.errors",
        "bridge.fetch",
        "bridge.gemini",
        "bridge.guards",
        "bridge.ids_and_clock",
        "bridge.settings",
        "bridge.state",
        "bridge.upstream",
    },
    "bridge.exchange": {
        "bridge",
        "bridge.agents",
        "bridge.context",
        "bridge.errors",
        "bridge.fetch",
        "bridge.gemini",
        "bridge.guards",
        "bridge.ids_and_clock",
        "bridge.interruption",
        "bridge.observe",
        "bridge.protocols",
        "bridge.settings",
        "bridge.state",
        "bridge.text_tools",
        "bridge.upstream",
    },
    "bridge.server": {
        "bridge.access",
        "bridge.errors",
        "bridge.observe",
        "bridge.settings",
        "bridge.socket_timeouts",
        "bridge.upstream",
    },
    "bridge.web": {
        "bridge",
        "bridge.access",
        "bridge.connect",
        "bridge.errors",
        "bridge.exchange",
        "bridge.fetch",
        "bridge.gemini",
        "bridge.guards",
        "bridge.ids_and_clock",
        "bridge.interruption",
        "bridge.observe",
        "bridge.protocols",
        "bridge.rate_limit_status",
        "bridge.recorder",
        "bridge.server",
        "bridge.settings",
        "bridge.state",
        "bridge.upstream",
    },
    "bridge.connect": {"bridge.gemini"},
    "bridge.doctor": {
        "bridge",
        "bridge.agents",
        "bridge.access",
        "bridge.errors",
        "bridge.exchange",
        "bridge.guards",
        "bridge.server",
        "bridge.settings",
        "bridge.state",
        "bridge.upstream",
        "bridge.web",
    },
    "bridge.cli": {
        "bridge",
        "bridge.access",
        "bridge.agents",
        "bridge.connect",
        "bridge.doctor",
        "bridge.errors",
        "bridge.exchange",
        "bridge.ids_and_clock",
        "bridge.protocols",
        "bridge.recorder",
        "bridge.experiment_report",
        "bridge.gemini",
        "bridge.observe",
        "bridge.settings",
        "bridge.state",
        "bridge.web",
    },
}

#: Third-party packages that only one layer may import.
ONLY_IN = {
    "opentelemetry": "bridge.observe",
    "prometheus_client": "bridge.observe",
    "flask": "bridge.web",
    "werkzeug": "bridge.web",
    "markupsafe": "bridge.web",
    "requests": "bridge.upstream",
    "urllib3": "bridge.upstream",
    "google": "bridge.upstream",
    "sqlite3": "bridge.state",
    "psycopg": "bridge.state",
    "psycopg_pool": "bridge.state",
}

#: The folder of the stores in each database, and the packages that only this folder may import.
DATABASES = {
    "bridge.state.sqlite": {"sqlite3"},
    "bridge.state.postgres": {"psycopg", "psycopg_pool"},
}

POSTGRES = {f"bridge.state.postgres.{path.stem}" for path in (PACKAGE / "state" / "postgres").glob("*.py")}

#: Optional packages, and the modules that may import them at the top: these modules are imported only after
#: their upstream or their database was chosen.
ON_DEMAND = {
    "google": {"bridge.upstream.auth.google_auth", "bridge.upstream.sdk.package"},
    "psycopg": POSTGRES,
    "psycopg_pool": POSTGRES,
}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def layer_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written in full"
            found.add(str(node.module))
    return found


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_imports_only_what_lies_below_it(path):
    layer = layer_of(name_of(path))
    ours = {layer_of(name) for name in imports_of(path) if name.split(".")[0] == "bridge"}
    assert ours - {layer} <= MAY_IMPORT[layer]


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_third_party_packages_stay_in_their_layer(path):
    layer = layer_of(name_of(path))
    for name in imports_of(path):
        assert ONLY_IN.get(name.split(".")[0], layer) == layer


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_only_the_factory_of_the_stores_and_the_copying_know_their_database(path):
    name = name_of(path)
    for folder, packages in DATABASES.items():
        if name.startswith(folder):
            continue
        assert not imports_of(path) & packages
        assert name in ("bridge.state.stores", "bridge.state.copying") or not [
            each for each in imports_of(path) if each.startswith(folder)
        ]


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_packages_of_extras_stay_in_modules_that_are_imported_on_demand(path):
    at_the_top = {
        name
        for node in ast.parse(path.read_text()).body
        for name in _imported(node)
        if name.split(".")[0] in ON_DEMAND or any(name in homes for homes in ON_DEMAND.values())
    }
    homes = set().union(*ON_DEMAND.values())
    assert not at_the_top or name_of(path) in homes


def _imported(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        return {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return set()


def protocol_of(module: str) -> str | None:
    """Return the protocol folder of a module."""
    _, _, folder, *_ = f"{module}...".split(".")
    return (
        folder
        if module.startswith("bridge.protocols.") and (PACKAGE / "protocols" / folder).is_dir()
        else None
    )


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_protocols_do_not_import_one_another(path):
    own = protocol_of(name_of(path))
    if own is not None:
        assert {protocol_of(name) for name in imports_of(path)} <= {own, None}


def test_the_table_has_no_cycle():
    def below(layer: str, above: tuple[str, ...] = ()) -> None:
        assert layer not in above, " → ".join((*above, layer))
        for lower in MAY_IMPORT[layer]:
            below(lower, (*above, layer))

    for layer in MAY_IMPORT:
        below(layer)


def test_the_architecture_document_shows_the_layers() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| `bridge/(\w+)(?:/|\.py)` \| [^|]+ \| ([^|]+) \|$", text, re.MULTILINE)
    shown = {name: set() if knows == "–" else set(knows.split(", ")) for name, knows in rows}
    held = {layer.removeprefix("bridge."): below for layer, below in MAY_IMPORT.items() if layer != "bridge"}
    assert shown == {
        layer: {each.removeprefix("bridge.") for each in below - {"bridge"}} for layer, below in held.items()
    }


def test_the_table_lists_exactly_the_existing_layers() -> None:
    there = {"bridge"} | {layer_of(f"bridge.{path.stem}") for path in PACKAGE.glob("*.py")}
    there |= {f"bridge.{path.name}" for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert there - {"bridge.__init__"} == MAY_IMPORT.keys()


def test_the_picture_of_the_layers_has_all_of_them_and_no_arrow_that_the_table_forbids() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    drawn = re.findall(r"^    (\w+) --> ([\w& ]+)$", text, re.MULTILINE)
    arrows = {(upper, lower) for upper, row in drawn for lower in row.split(" & ")}
    held = {layer.removeprefix("bridge."): below for layer, below in MAY_IMPORT.items() if layer != "bridge"}
    assert {layer for arrow in arrows for layer in arrow} == held.keys()
    assert not [arrow for arrow in arrows if f"bridge.{arrow[1]}" not in held[arrow[0]]]
