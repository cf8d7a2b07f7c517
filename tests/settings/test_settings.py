"""Settings: layers, checks, and the protection of secrets."""

from __future__ import annotations

import dataclasses
import math
import shutil
import tomllib
import traceback
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from gunicorn_bridge import ROOT

from bridge.settings import KNOWN, SECTIONS, Settings, SettingsError, UpstreamSettings, load
from bridge.settings.source import SHIPPED, base_folder
from bridge.settings.value import masked

CONFIG = ROOT / "config"
CANARY = "AIzaCanary-0123456789-never-to-be-seen"

Write = Callable[[str], None]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    folder.mkdir()
    for name in ("default.toml", "models.toml"):
        shutil.copy(CONFIG / name, folder)
    return folder


@pytest.fixture
def write_local(config: Path) -> Write:
    def write(text: str) -> None:
        (config / "local.toml").write_text(text, "utf-8")

    return write


# --- layers ------------------------------------------------------------------------------------------


def test_without_configuration_the_defaults_apply(config: Path) -> None:
    settings = load(config, {})
    assert settings.server.port == 41242
    assert settings.upstream.api_keys == ()
    assert settings.transport_in_force == "demo"
    assert settings.models.default == "gemini-flash-latest"


def as_toml(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def test_default_toml_and_the_code_agree_on_every_setting() -> None:
    written = tomllib.loads((CONFIG / "default.toml").read_text("utf-8"))
    in_code = {
        section: {
            field.name: as_toml(field.default)
            for field in dataclasses.fields(owner)
            if not KNOWN[f"{section}.{field.name}"].secret
        }
        for section, owner in SECTIONS.items()
    }
    assert written == in_code


def test_default_toml_comments_every_setting_and_says_where_secrets_go() -> None:
    text = (CONFIG / "default.toml").read_text("utf-8")
    for above, line in pairwise(text.splitlines()):
        assert line.startswith("#") or " = " not in line or above.startswith("#"), line
    for key, shape in KNOWN.items():
        assert not shape.secret or f"# {key.partition('.')[2]} is a secret" in text


def test_the_sections_are_the_fields_of_settings() -> None:
    fields = {field.name for field in dataclasses.fields(Settings)}
    named = {"models", "guards", "editors", "prices", "upstreams", "experiments", "agents", "origins"}
    assert fields == {*SECTIONS, *named}


def test_each_layer_overrides_the_previous_one(config: Path, write_local: Write) -> None:
    environ: dict[str, str] = {}
    assert load(config, environ).server.port == 41242
    write_local("[server]\nport = 1001")
    assert load(config, environ).server.port == 1001
    environ["BRIDGE_SERVER__PORT"] = "1002"
    assert load(config, environ).server.port == 1002
    environ["CODER_AGENT_PORT"] = "1003"
    assert load(config, environ).server.port == 1003


def test_a_layer_changes_only_its_own_values(config: Path, write_local: Write) -> None:
    write_local("[server]\nport = 1001")
    settings = load(config, {})
    assert (settings.server.host, settings.server.threads) == ("127.0.0.1", 128)


def test_the_folder_can_be_named_in_the_environment(config: Path, write_local: Write) -> None:
    write_local('[server]\nhost = "::1"')
    assert load(environ={"BRIDGE_CONFIG_DIR": str(config)}).server.host == "::1"


def test_without_a_configured_folder_the_projects_folder_is_read() -> None:
    assert load(environ={}).origins["models.default"] == "config/models.toml"


def test_every_value_has_its_origin(config: Path, write_local: Write) -> None:
    write_local("[server]\nport = 1001\nthreads = 32")
    environ = {"BRIDGE_SERVER__PORT": "1002", "DEBUG": "1", "DEFAULT_MODEL": "gemini-x"}
    origins = load(config, environ).origins
    assert origins["server.host"] == str(config / "default.toml")
    assert origins["server.threads"] == str(config / "local.toml")
    assert origins["server.port"] == "environment BRIDGE_SERVER__PORT"
    assert origins["log.debug"] == "environment DEBUG"
    assert origins["models.default"] == "environment DEFAULT_MODEL"
    assert "upstream.api_keys" not in origins
    assert {each.origin for each in load(config, {}).shown() if each.key == "upstream.api_keys"} == {
        "built in"
    }


def test_settings_are_immutable(config: Path) -> None:
    settings = load(config, {})
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.server.port = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        settings.origins["server.port"] = ""  # type: ignore[index]


# --- environment -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "key", "expected"),
    [
        ("BRIDGE_SERVER__HOST", "0.0.0.0", "server.host", "0.0.0.0"),
        ("BRIDGE_SERVER__HOST", '"::1"', "server.host", "::1"),
        ("BRIDGE_SERVER__WORKERS", "3", "server.workers", 3),
        ("BRIDGE_LOG__DEBUG", "true", "log.debug", True),
        ("BRIDGE_LOG__LEVEL", "warning", "log.level", "warning"),
        ("BRIDGE_UPSTREAM__READ_TIMEOUT", "5", "upstream.read_timeout", 5.0),
        ("BRIDGE_UPSTREAM__READ_TIMEOUT", "2.5", "upstream.read_timeout", 2.5),
        ("BRIDGE_UPSTREAM__TRANSPORT", "anything", "upstream.transport", "anything"),
        ("BRIDGE_UPSTREAM__API_KEYS", '["one", "two"]', "upstream.api_keys", ("one", "two")),
        ("BRIDGE_UPSTREAM__API_KEYS", "one,two", "upstream.api_keys", ("one", "two")),
        ("GEMINI_API_KEY", "one", "upstream.api_keys", ("one",)),
        ("GEMINI_API_KEY", " one, two ,,one", "upstream.api_keys", ("one", "two")),
        ("GEMINI_API_KEY", "12345", "upstream.api_keys", ("12345",)),
        ("GEMINI_API_KEY", "", "upstream.api_keys", ()),
        ("GEMINI_API_KEY", " ", "upstream.api_keys", ()),
        ("GOOGLE_GEMINI_BASE_URL", "http://localhost:8000/", "upstream.base_url", "http://localhost:8000"),
        ("GOOGLE_GEMINI_BASE_URL", "", "upstream.base_url", UpstreamSettings().base_url),
        ("CODER_AGENT_PORT", "8080", "server.port", 8080),
        ("CODER_AGENT_PORT", "", "server.port", 41242),
        ("DEBUG", "1", "log.debug", True),
        ("DEBUG", "True", "log.debug", True),
        ("DEBUG", "yes", "log.debug", True),
        ("DEBUG", "on", "log.debug", True),
        ("DEBUG", "0", "log.debug", False),
        ("DEBUG", "false", "log.debug", False),
        ("DEBUG", "no", "log.debug", False),
        ("DEBUG", "OFF", "log.debug", False),
        ("DEBUG", "", "log.debug", False),
        ("BRIDGE_STATE_DIR", "/var/lib/bridge", "state.dir", Path("/var/lib/bridge")),
        ("BRIDGE_STATE_DIR", "2024", "state.dir", None),
        ("BRIDGE_TEST_ACCEPT", "1", "server.port", 41242),
        ("BRIDGE_KEY", "gbk_a_clients", "server.port", 41242),
        ("USE_CCPA", "0", "upstream.transport", "auto"),
        ("USE_CCPA", "yes", "upstream.transport", "code_assist"),
        ("GOOGLE_CLOUD_PROJECT", "example.com:team-7", "vertex.project", "example.com:team-7"),
        ("GOOGLE_CLOUD_PROJECT", "team-7", "code_assist.project", "team-7"),
        ("GOOGLE_CLOUD_PROJECT", "", "vertex.project", "auto"),
        ("GOOGLE_CLOUD_LOCATION", "europe-west4", "vertex.location", "europe-west4"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/k.json", "vertex.credentials", Path("/k.json")),
        ("BRIDGE_VERTEX__MODELS", '["one", "two"]', "vertex.models", ("one", "two")),
        ("BRIDGE_VERTEX__BASE_URL", "auto", "vertex.base_url", "auto"),
        ("BRIDGE_UPSTREAM__SDK_LOSSES", "rest", "upstream.sdk_losses", "rest"),
        ("USE_CCPA", "", "upstream.transport", "auto"),
    ],
)
def test_a_variable_is_read_as_json_or_else_as_text(
    config: Path, name: str, text: str, key: str, expected: object
) -> None:
    settings = load(config, {name: text})
    section, _, field = key.partition(".")
    value = getattr(getattr(settings, section), field)
    assert value == (config.parent / text if expected is None else expected)
    assert type(value) is type(expected) or isinstance(value, Path)


def test_an_empty_switch_turns_off_what_a_file_turned_on(config: Path, write_local: Write) -> None:
    write_local("[log]\ndebug = true")
    assert load(config, {}).log.debug is True
    assert load(config, {"DEBUG": ""}).log.debug is False


def test_a_relative_state_folder_is_relative_to_the_config_folders_parent(config: Path) -> None:
    assert load(config, {}).state.dir == config.parent / "state"


def test_default_model_overrides_the_table(config: Path) -> None:
    assert load(config, {"DEFAULT_MODEL": "models/gemini-x"}).models.resolve("unheard-of") == "gemini-x"
    assert load(config, {"DEFAULT_MODEL": ""}).models.resolve("unheard-of") == "gemini-flash-latest"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "demo"),
        ({"GEMINI_API_KEY": "key"}, "gemini"),
        ({"GEMINI_API_KEY": "key", "BRIDGE_UPSTREAM__TRANSPORT": "demo"}, "demo"),
        ({"BRIDGE_UPSTREAM__TRANSPORT": "gemini"}, "gemini"),
        ({"BRIDGE_UPSTREAM__TRANSPORT": "replay"}, "replay"),
    ],
)
def test_auto_means_gemini_only_when_there_is_a_key(
    config: Path, environ: dict[str, str], expected: str
) -> None:
    assert load(config, environ).transport_in_force == expected


# --- credential --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [("one\n", ("one",)), ("one,two", ("one", "two")), ("one\r\ntwo\n", ("one", "two")), ("\n", ())],
)
def test_keys_come_from_a_systemd_credential(
    config: Path, tmp_path: Path, content: str, expected: tuple[str, ...]
) -> None:
    (tmp_path / "gemini_api_key").write_text(content, newline="")
    settings = load(config, {"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert settings.upstream.api_keys == expected
    assert settings.origins.get("upstream.api_keys") == ("credential gemini_api_key" if expected else None)


def test_the_environment_overrides_the_credential(config: Path, tmp_path: Path) -> None:
    (tmp_path / "gemini_api_key").write_text("one")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path), "GEMINI_API_KEY": "two"}
    assert load(config, environ).upstream.api_keys == ("two",)


def test_other_systemd_credentials_are_ignored(config: Path, tmp_path: Path) -> None:
    assert load(config, {"CREDENTIALS_DIRECTORY": str(tmp_path)}).upstream.api_keys == ()


# --- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[server]\nprot = 1", ["local.toml", "server.prot", "did you mean port?"]),
        ("[server]\nzzz = 1", ["local.toml", "server.zzz", "known names: host, port, public_url, workers"]),
        ("[servr]\nport = 1", ["local.toml", "[servr]", "did you mean server?"]),
        ("[zzz]", ["local.toml", "[zzz]", f"known names: {', '.join(SECTIONS)}"]),
        ("port = 1", ["local.toml", "port is outside a section", "[server]"]),
        ("zzz = 1", ["local.toml", "zzz is outside a section", "[server], [upstream]"]),
        ("server = 1", ["local.toml", "server must be a section; write it as [server]"]),
        ("[[server]]\nport = 1", ["local.toml", "server must be a section"]),
        ('[server]\nport = "8080"', ["server.port", "a whole number from 1 to 65535", "not '8080'"]),
        ("[server]\nport = true", ["server.port", "a whole number from 1 to 65535", "not true"]),
        ("[server]\nport = 8080.0", ["server.port", "a whole number", "not 8080.0"]),
        ("[server]\nport = 0", ["server.port", "from 1 to 65535", "not 0"]),
        ("[server]\nport = 65536", ["server.port", "from 1 to 65535", "not 65536"]),
        ("[server]\nport = [1]", ["server.port", "not this list"]),
        ("[server.port]", ["server.port", "not a table"]),
        ("[server]\nport = 2020-01-01", ["server.port", "a whole number"]),
        ("[server]\nworkers = 0", ["server.workers", "a whole number of at least 1", "not 0"]),
        ('[server]\nhost = " "', ["server.host", "a text", "not ' '"]),
        ("[upstream]\nread_timeout = true", ["upstream.read_timeout", "a number from 0.1 to 3600"]),
        ("[upstream]\nread_timeout = 0", ["upstream.read_timeout", "from 0.1 to 3600", "not 0"]),
        ("[upstream]\nread_timeout = inf", ["upstream.read_timeout", "not inf"]),
        ("[upstream]\nread_timeout = nan", ["upstream.read_timeout", "not nan"]),
        ("[upstream]\nkey_cooldown = -1", ["upstream.key_cooldown", "from 0 to 86400"]),
        ("[upstream]\nmodels_ttl = 1" + "0" * 400, ["upstream.models_ttl", "from 0 to 86400"]),
        ('[upstream]\nbase_url = "localhost:80"', ["upstream.base_url", "http:// or https://"]),
        ('[log]\nlevel = "loud"', ["log.level", "debug, info, warning or error", "not 'loud'"]),
        ('[log]\ndebug = "yes"', ["log.debug", "true or false", "not 'yes'"]),
        ('[state]\ndir = ""', ["state.dir", "a path"]),
        (
            '[state]\nurl = "postgresql://u@h/db"',
            ["state.url", "BRIDGE_STATE_URL", "named state_url"],
        ),
        ('[upstream]\napi_keys = ["k"]', ["upstream.api_keys", "GEMINI_API_KEY", "gemini_api_key"]),
        ("[responses]\nopenai_marks = []", ["responses.openai_marks", "remove it", "responses.bridge_marks"]),
        ("[server]\nport = = 1", ["local.toml", "invalid TOML", "line 2"]),
    ],
)
def test_an_error_in_a_file_is_named(config: Path, write_local: Write, text: str, parts: list[str]) -> None:
    write_local(text)
    assert_refused(config, {}, ["local.toml", *parts])


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("BRIDGE_SERVER_PORT", "1", ["did you mean BRIDGE_SERVER__PORT?"]),
        ("BRIDGE_SERVER__PROT", "1", ["did you mean BRIDGE_SERVER__PORT?"]),
        ("BRIDGE_server__port", "1", ["did you mean BRIDGE_SERVER__PORT?"]),
        ("BRIDGE_CONFIG_DIRS", "x", ["did you mean BRIDGE_CONFIG_DIR?"]),
        ("BRIDGE_TESTS", "x", ["this is not a setting"]),
        ("BRIDGE_RESPONSES__OPENAI_MARKS", "[]", ["remove it", "responses.bridge_marks"]),
        ("BRIDGE_SERVER__PORT", "many", ["server.port", "a whole number from 1 to 65535", "'many'"]),
        ("BRIDGE_SERVER__PORT", "true", ["server.port", "not true"]),
        ("BRIDGE_SERVER__HOST", "127", ["server.host", "a text", "not 127"]),
        ("BRIDGE_LOG__DEBUG", "yes", ["log.debug", "true or false"]),
        ("BRIDGE_UPSTREAM__READ_TIMEOUT", "NaN", ["upstream.read_timeout", "a number"]),
        ("BRIDGE_STATE_URL", "mysql://u@h/db", ["state.url", "postgresql://user:password@host"]),
        ("BRIDGE_STATE_URL", "postgresql://u@h/ db", ["state.url", "postgresql://user:password@host"]),
        ("BRIDGE_STATE_URLS", "x", ["did you mean BRIDGE_STATE_URL?"]),
        ("CODER_AGENT_PORT", "99999", ["server.port", "from 1 to 65535", "99999"]),
        ("GOOGLE_GEMINI_BASE_URL", "ftp://x", ["upstream.base_url", "http:// or https://"]),
        ("GOOGLE_GEMINI_BASE_URL", "http://", ["upstream.base_url", "http:// or https://"]),
        ("GOOGLE_GEMINI_BASE_URL", "http://x:port", ["upstream.base_url", "http:// or https://"]),
        ("GOOGLE_GEMINI_BASE_URL", "http://[::1", ["upstream.base_url", "http:// or https://"]),
        ("GEMINI_API_KEY", "key,with blank", ["upstream.api_keys", "without spaces"]),
        ("BRIDGE_OTEL__ENDPOINT", "on", ["otel.endpoint", "off, or an http:// or https:// address"]),
        ("BRIDGE_METRICS__ALLOWED_FROM", "::1,intranet", ["metrics.allowed_from", "a range such as"]),
        ("DEBUG", "maybe", ["log.debug", "true or false", "'maybe'"]),
        ("USE_CCPA", "maybe", ["must be 1 or 0", "'maybe'"]),
        ("GOOGLE_CLOUD_PROJECT", "My Project", ["vertex.project", "lower-case letters, digits and dashes"]),
        ("GOOGLE_CLOUD_LOCATION", "evil.test/", ["vertex.location", "lower-case letters, digits and dashes"]),
        ("BRIDGE_VERTEX__BASE_URL", "ftp://x", ["vertex.base_url", "auto, or an http:// or https://"]),
        ("BRIDGE_UPSTREAM__SDK_LOSSES", "drop", ["upstream.sdk_losses", "refuse or rest", "'drop'"]),
        ("BRIDGE_CONFIG_DIR", "/nowhere", ["the folder /nowhere does not exist"]),
    ],
)
def test_an_error_in_the_environment_is_named(config: Path, name: str, text: str, parts: list[str]) -> None:
    folder = None if name == "BRIDGE_CONFIG_DIR" else config
    assert_refused(folder, {name: text}, [f"environment {name}", *parts])


def test_a_missing_or_unreadable_file_is_named(config: Path) -> None:
    (config / "local.toml").mkdir()
    assert_refused(config, {}, ["local.toml", "cannot be read"])
    (config / "local.toml").rmdir()
    (config / "local.toml").write_bytes(b"# \xff")
    assert_refused(config, {}, ["local.toml", "invalid TOML"])
    (config / "default.toml").unlink()
    assert_refused(config, {}, ["default.toml", "the file does not exist"])


def test_a_google_credential_of_systemd_is_passed_on_as_a_file(config: Path, tmp_path: Path) -> None:
    (tmp_path / "google_credentials").write_text("{}")
    settings = load(config, {"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert settings.vertex.credentials == tmp_path / "google_credentials"
    assert settings.origins["vertex.credentials"] == "credential google_credentials"


def test_a_credential_that_cannot_be_read_is_named(config: Path, tmp_path: Path) -> None:
    (tmp_path / "gemini_api_key").write_bytes(b"\xff")
    assert_refused(config, {"CREDENTIALS_DIRECTORY": str(tmp_path)}, ["credential gemini_api_key", "UTF-8"])
    (tmp_path / "gemini_api_key").unlink()
    (tmp_path / "gemini_api_key").mkdir()
    assert_refused(
        config, {"CREDENTIALS_DIRECTORY": str(tmp_path)}, ["credential gemini_api_key", "cannot be read"]
    )


def assert_refused(config: Path | None, environ: dict[str, str], parts: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        load(config, environ)
    message = str(caught.value)
    assert [part for part in parts if part not in message] == [], message


# --- secrets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("local", "environ"),
    [
        (f'[upstream]\napi_keys = ["{CANARY}"]', {}),
        (f'[upstream]\napi_key = "{CANARY}"', {}),
        (f'GEMINI_API_KEY = "{CANARY}"', {}),
        (f'[upstream]\nbase_url = "https://user:{CANARY}@example.org"', {}),
        (f'[server]\nport = "{CANARY}"', {}),
        (f'[log]\nlevel = "{CANARY}"', {}),
        (f'[upstream]\nbase_url = "{CANARY}', {}),
        ("", {"GEMINI_API_KEY": f"{CANARY} and more"}),
        ("", {"GEMINI_API_KEY": f"{CANARY}é"}),
        ("", {"GEMINI_API_KEYS": "", "BRIDGE_GEMINI_API_KEY": CANARY}),
        ("", {"BRIDGE_UPSTREAM__API_KEY": CANARY}),
        ("", {"BRIDGE_UPSTREAM__API_KEYS": f'{{"key": "{CANARY}"}}'}),
        ("", {"BRIDGE_UPSTREAM__API_KEYS": f'["{CANARY}", 3]'}),
        ("", {"GOOGLE_GEMINI_BASE_URL": f"https://example.org/?key={CANARY}"}),
        ("", {"CODER_AGENT_PORT": CANARY}),
        (f'[state]\nurl = "postgresql://u:{CANARY}@h/db"', {}),
        ("", {"BRIDGE_STATE_URL": f"mysql://u:{CANARY}@h/db"}),
    ],
)
def test_no_message_holds_a_secret(
    config: Path, write_local: Write, local: str, environ: dict[str, str]
) -> None:
    write_local(local)
    with pytest.raises(SettingsError) as caught:
        load(config, environ)
    said = "".join(traceback.format_exception_only(caught.value)) + repr(caught.value.__cause__)
    assert CANARY not in said
    assert CANARY[:12] not in said


def test_no_view_of_the_settings_holds_a_secret(config: Path) -> None:
    settings = load(config, {"GEMINI_API_KEY": f"{CANARY},short"})
    assert settings.upstream.api_keys == (CANARY, "short")
    shown = [each for each in settings.shown() if each.key == "upstream.api_keys"]
    assert shown[0].value == ["••••" + CANARY[-4:], "••••"]
    for view in (
        repr(settings),
        str(settings.upstream),
        repr(list(settings.shown())),
        repr(settings.origins),
    ):
        assert CANARY not in view
        assert "short" not in view


def test_the_address_of_the_database_comes_from_the_environment_or_a_credential(
    config: Path, tmp_path: Path
) -> None:
    (tmp_path / "state_url").write_text("postgresql://one@host/db\n")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert load(config, environ).state.url == "postgresql://one@host/db"
    environ["BRIDGE_STATE_URL"] = "postgresql://two@host/db"
    assert load(config, environ).state.url == "postgresql://two@host/db"
    assert load(config, {"BRIDGE_STATE_URL": ""}).state.url == ""


def test_the_address_of_the_database_is_shown_without_its_password(config: Path) -> None:
    url = f"postgresql://bridge:{CANARY}@host:5432/db?sslpassword=hidden%2Dtoo"
    settings = load(config, {"BRIDGE_STATE_URL": url})
    shown = next(each for each in settings.shown() if each.key == "state.url")
    assert shown.value == ["postgresql://bridge:••••@host:5432/db"]
    assert CANARY not in repr(settings)
    assert {CANARY, url, "hidden-too"} <= set(settings.secrets)


@pytest.mark.parametrize(
    ("secret", "expected"), [("", "••••"), ("a" * 12, "••••"), ("123456789abcd", "••••abcd")]
)
def test_a_mask_shows_the_end_of_long_secrets_only(secret: str, expected: str) -> None:
    assert masked(secret) == expected


def test_every_shown_value_is_plain_data(config: Path) -> None:
    for each in load(config, {}).shown():
        assert isinstance(each.value, str | int | float | list)
        assert not isinstance(each.value, float) or math.isfinite(each.value)


def test_relative_paths_of_packaged_settings_refer_to_the_users_folder_for_state(tmp_path: Path) -> None:
    assert base_folder(tmp_path / "config", {"XDG_STATE_HOME": "/state"}) == tmp_path
    assert base_folder(SHIPPED / "config", {"XDG_STATE_HOME": "/state"}) == Path("/state/gemini-bridge")
    assert base_folder(SHIPPED / "config", {}) == Path.home() / ".local/state/gemini-bridge"
