"""Reads settings from TOML files, environment variables and a systemd credential.

This module records the source of each setting and does not validate values. The caller passes the known
settings.
"""

from __future__ import annotations

import importlib.util
import json
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge.settings.value import SettingsError, suggestion

_PACKAGE = Path(__file__).resolve().parent.parent
#: A built package carries `config/` and `gunicorn.conf.py` here (setup.py); a checkout has no such folder.
SHIPPED = _PACKAGE / "shipped"
INSTALLED = SHIPPED.is_dir()
#: The folder that holds `config/` and `gunicorn.conf.py`.
PROJECT = SHIPPED if INSTALLED else _PACKAGE.parent

PREFIX = "BRIDGE_"
CONFIG_DIR = "BRIDGE_CONFIG_DIR"
STATE_DIR = "BRIDGE_STATE_DIR"
STATE_URL = "BRIDGE_STATE_URL"
TEST_PREFIX = "BRIDGE_TEST_"
#: A client's key for the bridge, not a setting; a developer's shell may have it.
CLIENT_KEY = "BRIDGE_KEY"

#: The variable in which systemd passes the folder: https://systemd.io/CREDENTIALS
CREDENTIALS_DIR = "CREDENTIALS_DIRECTORY"
CREDENTIAL = "gemini_api_key"
GOOGLE_CREDENTIAL = "google_credentials"
STATE_CREDENTIAL = "state_url"

SWITCH_WORDS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off", ""), False),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting as it is written in its source."""

    key: str  #: dotted: `server.port`
    value: object
    origin: str


def label(path: Path) -> str:
    """The path for messages; in a checkout, relative to its top folder."""
    return str(path.relative_to(PROJECT) if path.is_relative_to(PROJECT) and not INSTALLED else path)


def base_folder(config: Path, environ: Mapping[str, str]) -> Path:
    """The folder to which relative paths in the settings refer.

    It is the folder around the settings. An upgrade replaces an installed package, so paths in the settings
    that come with it refer to the user's own folder for state.
    """
    if not config.is_relative_to(SHIPPED):
        return config.parent
    return Path(environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "gemini-bridge"


def has_package(name: str) -> bool:
    """Whether the package can be imported; it is not imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


#: Settings of earlier versions, with advice.
RETIRED = {
    "responses.openai_marks": "remove it: clients that match no mark get the openai dialect; "
    "add clients that need the bridge dialect to responses.bridge_marks",
}


# --- files -------------------------------------------------------------------------------------------


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"{label(path)}: the file does not exist") from None
    except OSError as error:
        raise SettingsError(f"{label(path)}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # invalid TOML or invalid UTF-8
        raise SettingsError(f"{label(path)}: invalid TOML: {error}") from None


def file_entries(path: Path, known: Collection[str]) -> Iterator[Entry]:
    origin = label(path)
    sections = _sections(known)
    for section, table in read_toml(path).items():
        if not isinstance(table, dict):
            raise SettingsError(f"{origin}: {_outside_section(section, known)}")
        if section not in sections:
            raise SettingsError(f"{origin}: [{section}] is not a section; {suggestion(section, sections)}")
        for key, value in table.items():
            if f"{section}.{key}" not in known:
                advice = RETIRED.get(f"{section}.{key}") or suggestion(key, sections[section])
                raise SettingsError(f"{origin}: {section}.{key} is not a setting; {advice}")
            yield Entry(f"{section}.{key}", value, origin)


def _sections(known: Collection[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for dotted in known:
        section, _, key = dotted.partition(".")
        found.setdefault(section, []).append(key)
    return found


def _outside_section(name: str, known: Collection[str]) -> str:
    sections = _sections(known)
    if name in sections:
        return f"{name} must be a section; write it as [{name}]"
    homes = [section for section, keys in sections.items() if name in keys] or sections
    return f"{name} is outside a section; it belongs under {', '.join(f'[{home}]' for home in homes)}"


# --- environment -------------------------------------------------------------------------------------


def variable_name(key: str) -> str:
    return PREFIX + key.replace(".", "__").upper()


def variable_entries(environ: Mapping[str, str], known: Collection[str]) -> Iterator[Entry]:
    """The settings from variables of the form `BRIDGE_SECTION__KEY`."""
    keys = {variable_name(key): key for key in known}
    for name, text in environ.items():
        if name in keys:
            yield Entry(keys[name], from_json(text), f"environment {name}")
        elif name.startswith(PREFIX) and not _has_other_use(name):
            retired = {variable_name(key): advice for key, advice in RETIRED.items()}
            advice = retired.get(name) or suggestion(name, [*keys, CONFIG_DIR, STATE_DIR, STATE_URL])
            raise SettingsError(f"environment {name}: this is not a setting; {advice}")


def _has_other_use(name: str) -> bool:
    return name in (CONFIG_DIR, STATE_DIR, STATE_URL, CLIENT_KEY) or name.startswith(TEST_PREFIX)


def from_json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def from_switch_word(text: str) -> object:
    return SWITCH_WORDS.get(text.strip().lower(), text)


def _transport_for_use_ccpa(text: str) -> object:
    switch = from_switch_word(text)
    if not isinstance(switch, bool):
        raise SettingsError(f"environment USE_CCPA: must be 1 or 0, not {text!r}")
    return "code_assist" if switch else None


#: Well-known variables and the setting that each of them sets. An empty value counts as unset, except for a
#: switch.
PLAIN_NAMES: tuple[tuple[str, str, Callable[[str], object]], ...] = (
    ("GEMINI_API_KEY", "upstream.api_keys", str),
    ("GOOGLE_GEMINI_BASE_URL", "upstream.base_url", str),
    ("USE_CCPA", "upstream.transport", _transport_for_use_ccpa),
    ("GOOGLE_CLOUD_PROJECT", "vertex.project", str),
    ("GOOGLE_CLOUD_PROJECT", "code_assist.project", str),
    ("GOOGLE_CLOUD_LOCATION", "vertex.location", str),
    ("GOOGLE_APPLICATION_CREDENTIALS", "vertex.credentials", str),
    ("CODER_AGENT_PORT", "server.port", from_json),
    ("DEBUG", "log.debug", from_switch_word),
    (STATE_DIR, "state.dir", str),
    (STATE_URL, "state.url", str),
)


def plain_entries(environ: Mapping[str, str]) -> Iterator[Entry]:
    for name, key, read in PLAIN_NAMES:
        text = environ.get(name)
        if text is None or not (text.strip() or read is from_switch_word):
            continue
        if (value := read(text)) is not None:
            yield Entry(key, value, f"environment {name}")


# --- credential --------------------------------------------------------------------------------------


def credential_entries(environ: Mapping[str, str]) -> Iterator[Entry]:
    folder = environ.get(CREDENTIALS_DIR)
    if not folder:
        return
    if (file := Path(folder) / GOOGLE_CREDENTIAL).exists():
        yield Entry("vertex.credentials", str(file), f"credential {GOOGLE_CREDENTIAL}")
    for name, key in ((CREDENTIAL, "upstream.api_keys"), (STATE_CREDENTIAL, "state.url")):
        origin = f"credential {name}"
        if text := read_credential(Path(folder) / name, origin):
            yield Entry(key, ",".join(text.splitlines()), origin)


def read_credential(path: Path, origin: str) -> str:
    """The text of a credential; empty if there is none."""
    try:
        return path.read_text("utf-8").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise SettingsError(f"{origin}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{origin}: is not UTF-8 text") from None
