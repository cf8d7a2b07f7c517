"""config/upstreams.toml: rows, keys by reference, which upstream serves a model, and what stops the start."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest
from gunicorn_bridge import ROOT

from bridge.settings import Settings, SettingsError, load
from bridge.settings.routes import Target
from bridge.settings.upstreams import NOT_OF_SERVER, UpstreamRow, load_upstreams
from bridge.settings.upstreams import ROW as ROW_SHAPES

KEY = "AIzaCanary0000000000000000000000000one"
ENVIRON = {"GEMINI_API_KEY": "default-key-0000", "ONE_KEY": KEY, "TWO_KEY": "second-key-000000"}

ONE = """
[[upstream]]
name = "one"
kind = "gemini"
api_key = "env:ONE_KEY"
"""
TWO = ONE.replace('"one"', '"two"').replace("ONE_KEY", "TWO_KEY")

Write = Callable[..., Settings]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    """Load the settings with these rows of upstreams.toml, more lines of models.toml, and these variables."""
    folder = tmp_path / "config"
    folder.mkdir()
    for name in ("default.toml", "models.toml"):
        shutil.copy(ROOT / "config" / name, folder)

    def write(rows: str = "", models: str = "", environ: dict[str, str] = ENVIRON) -> Settings:
        (folder / "upstreams.toml").write_text(rows)
        if models:
            text = (folder / "models.toml").read_text()
            head, mark, tail = text.partition("[[alias]]")
            (folder / "models.toml").write_text(f"{head}{models}\n{mark}{tail}")
        return load(folder, environ)

    return write


# --- rows ---------------------------------------------------------------------------------------------


def test_the_delivered_file_has_no_row() -> None:
    assert load_upstreams(ROOT / "config" / "upstreams.toml", {}, load(environ={}).upstream) == ()


def test_the_delivered_file_describes_every_key_of_a_row() -> None:
    text = (ROOT / "config" / "upstreams.toml").read_text()
    assert [key for key in ROW_SHAPES if not re.search(rf"\b{key}\b", text)] == []


def test_without_rows_the_only_upstream_is_that_of_the_section(written: Write) -> None:
    settings = written()
    (row,) = settings.all_upstreams
    assert (row.name, row.kind, row.api_keys) == ("default", "gemini", ("default-key-0000",))
    assert settings.models.meaning("gpt-4o").models[0] == Target("default", "gemini-pro-latest")


def test_a_row_inherits_time_limits_and_sets_its_own(written: Write) -> None:
    environ = {**ENVIRON, "BRIDGE_UPSTREAM__READ_TIMEOUT": "7", "BRIDGE_UPSTREAM__KEY_COOLDOWN": "8"}
    settings = written(ONE + "key_cooldown = 9.0\nweight = 3\nbase_url = 'https://h/'\n", environ=environ)
    row = settings.upstreams[0]
    assert (row.read_timeout, row.key_cooldown, row.weight, row.base_url) == (7.0, 9.0, 3, "https://h")
    assert (row.tools, row.think, row.preserve_context, row.dialect) == ("native", "", True, "openai")


def test_a_parameter_map_is_a_table_of_tables(written: Write) -> None:
    row = written(ONE + "[upstream.parameter_map.read]\npath = 'file_path'\n").upstreams[0]
    assert row.parameter_map == {"read": {"path": "file_path"}}


def test_keys_come_from_variables_and_credentials_and_are_secret(written: Write, tmp_path: Path) -> None:
    (tmp_path / "more_keys").write_text("key-number-0002\nkey-number-0003\n")
    rows = ONE.replace('"env:ONE_KEY"', '["env:ONE_KEY", "credential:more_keys"]')
    settings = written(rows, environ={**ENVIRON, "CREDENTIALS_DIRECTORY": str(tmp_path)})
    (row,) = settings.upstreams
    assert row.api_keys == (KEY, "key-number-0002", "key-number-0003")
    assert set(row.api_keys) <= set(settings.secrets)
    assert KEY not in repr(settings)
    assert "key-number" not in repr(row)


# --- which upstream serves a model --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "target", "upstreams"),
    [
        ("two:gpt-4o", Target("two", "gpt-4o"), None),
        ("default:gemini-x", Target("default", "gemini-x"), None),
        ("gpt-oss-20b", Target("", "gpt-oss-20b"), ("one", "two")),
        ("qwen3:8b", Target("", "qwen3:8b"), ("two",)),
        ("gpt-4o", Target("", "gemini-pro-latest"), ("default",)),
        ("mine", Target("two", "its-model"), None),
        ("pinned-1", Target("", "pinned-1"), ("one",)),
        ("claude/gpt-oss-20b[1m]", Target("", "gpt-oss-20b"), ("one", "two")),
    ],
)
def test_a_name_leads_to_its_upstream(
    written: Write, name: str, target: Target, upstreams: tuple[str, ...] | None
) -> None:
    rows = f"{ONE}models = ['gpt-oss-*']\n{TWO}models = ['gpt-oss-*', 'qwen3:*', 'pinned-*']\n"
    models = (
        "[[alias]]\nmatch = ['mine']\nmodel = 'its-model'\nupstream = 'two'\n"
        "[[model]]\nmatch = ['pinned-1']\nupstream = 'one'\n"
    )
    table = written(rows, models).models
    assert table.meaning(name).models[0] == target
    if upstreams is not None:
        assert table.upstreams_of(target.model) == upstreams


def test_a_catch_all_serves_only_what_no_other_pattern_matches(written: Write) -> None:
    table = written(f"{ONE}models = ['*']\n{TWO}models = ['gemini-3*']\n").models
    assert table.upstreams_of("gemini-3.8-flash") == ("two",)
    assert table.upstreams_of("gemini-pro-latest") == ("one",)
    assert table.meaning("gpt-4o").models[0].model == "gemini-pro-latest"  # aliases apply before "*"


def test_a_retired_model_is_replaced_at_the_same_upstream(written: Write) -> None:
    lifecycle = "[[lifecycle]]\nmatch = ['old']\nshut_down = 2026-01-01\nreplacement = ['new']\n"
    meant = written(ONE, lifecycle).models.meaning("one:old")
    assert meant.retired == "old"
    assert meant.models == (Target("one", "new"),)


def test_without_a_key_there_is_no_default_beside_rows(written: Write) -> None:
    settings = written(f"{ONE}models = ['*']\n", environ={"ONE_KEY": KEY})
    assert settings.transport_in_force == "none"
    assert [row.name for row in settings.all_upstreams] == ["one"]


def test_a_price_may_name_the_upstream(written: Write, tmp_path: Path) -> None:
    prices = 'currency = "USD"\n[[price]]\nmatch = ["one:*"]\ninput = 1.0\noutput = 2.0\n'
    (tmp_path / "config" / "prices.toml").write_text(prices)
    settings = written(ONE, "[[alias]]\nmatch = ['mine']\nmodel = 'one:its'\n")
    assert "one:its" not in settings.unpriced_models
    assert settings.prices_in_force.knows(*Target("one", "its").price_names)
    assert not settings.prices_in_force.knows(*Target("two", "its").price_names)


def test_every_field_of_a_row_that_may_change_answers_separates_cached_answers() -> None:
    row = UpstreamRow(name="one", kind="openai")
    others = {
        "kind": "ollama",
        "base_url": "http://b",
        "dialect": "vllm",
        "think": "off",
        "project": "p",
        "location": "europe-west4",
    }
    assert {each.name for each in fields(row)} == NOT_OF_SERVER | others.keys()
    changed = [replace(row, **{name: value}).server_settings for name, value in others.items()]  # type: ignore[arg-type]
    assert len({row.server_settings, *changed}) == 1 + len(others)


# --- what stops the start -----------------------------------------------------------------------------

ROW, MODELS = "upstreams.toml: [[upstream]] 1", "models.toml"


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        (ONE.replace("env:ONE_KEY", KEY), [f"{ROW}: api_key", "must not contain a key", "env:NAME"]),
        (ONE.replace("ONE_KEY", "NO_KEY"), [f"{ROW}: api_key", "NO_KEY is not set"]),
        (ONE.replace("env:ONE_KEY", "credential:x"), [f"{ROW}: api_key", "CREDENTIALS_DIRECTORY is not set"]),
        (ONE + ONE, ["upstreams.toml: [[upstream]] 2: name", "two upstreams named one"]),
        (ONE.replace('"one"', '"default"'), [f"{ROW}: name", "choose another name"]),
        (ONE.replace('"one"', '"One"'), [f"{ROW}: name", "lower-case"]),
        (ONE.replace('"one"', '"o:ne"'), [f"{ROW}: name", "lower-case"]),
        (ONE.replace('"one"', '"one/../x"'), [f"{ROW}: name"]),
        (ONE.replace('name = "one"', ""), [f"{ROW}: name is missing"]),
        (ONE.replace('kind = "gemini"', ""), [f"{ROW}: kind is missing"]),
        (ONE + "weight = 0\n", [f"{ROW}: weight", "from 1 to 1000", "not 0"]),
        (ONE + "weight = -1\n", [f"{ROW}: weight"]),
        (ONE + "api_keys = ['x']\n", [f"{ROW}: api_keys is unknown", "api_key"]),
        (ONE + "base_url = 'ftp://h'\n", [f"{ROW}: base_url"]),
        (ONE + "proxy = 'http://user:secret-word@h'\n", [f"{ROW}: proxy"]),
        (ONE + "tools = 'maybe'\n", [f"{ROW}: tools", "native or text"]),
        (ONE + "parameter_map = 3\n", [f"{ROW}: parameter_map"]),
        ("upstream = 3\n", ["upstreams.toml: upstream"]),
        ("[[upstreams]]\n", ["upstreams.toml: upstreams is unknown", "upstream"]),
        ("[[upstream\n", ["upstreams.toml: invalid TOML"]),
    ],
)
def test_a_bad_row_stops_the_start(written: Write, rows: str, parts: list[str]) -> None:
    with pytest.raises(SettingsError) as stopped:
        written(rows)
    assert [part for part in parts if part not in str(stopped.value)] == []
    assert KEY not in str(stopped.value)
    assert "secret-word" not in str(stopped.value)


@pytest.mark.parametrize(
    ("rows", "models", "parts"),
    [
        ("", "[[model]]\nmatch = ['m']\nupstream = 'one'\n", ["[[model]] 1: upstream", "'one'"]),
        (ONE, "[[alias]]\nmatch = ['m']\nmodel = 'x'\nupstream = 'on'\n", ["[[alias]] 1: upstream", "one?"]),
        (ONE, "[[alias]]\nmatch = ['m']\nmodel = 'on:x'\n", ["[[alias]] 1: model", "'on:x'", "one?"]),
        (ONE, "[[model]]\nmatch = ['m']\nfallbacks = ['on:x']\n", ["[[model]] 1: fallbacks", "'on:x'"]),
        (
            f"{ONE}models = ['m-*']\n{TWO}",
            "[[model]]\nmatch = ['m-*']\nupstream = 'two'\n",
            [f"{ROW}: models: 'm-*' has no effect", "two"],
        ),
        (ONE, "[[model]]\nmatch = ['m']\nfallbacks = ['m']\n", ["fallbacks: m is a fallback of itself"]),
        (
            ONE,
            "[[model]]\nmatch = ['a']\nfallbacks = ['one:b']\n[[model]]\nmatch = ['b']\nfallbacks = ['a']\n",
            ["[[model]] 1: fallbacks: one:b leads back to a"],
        ),
    ],
)
def test_tables_that_do_not_fit_together_stop_the_start(
    written: Write, rows: str, models: str, parts: list[str]
) -> None:
    with pytest.raises(SettingsError) as stopped:
        written(rows, models)
    assert [part for part in parts if part not in str(stopped.value)] == []


def test_a_model_that_no_upstream_serves_stops_the_start(written: Write) -> None:
    with pytest.raises(SettingsError) as stopped:
        written(f"{ONE}models = ['qwen*']\n", environ={"ONE_KEY": KEY})
    assert "models.toml: default: no upstream serves 'gemini-flash-latest'" in str(stopped.value)
    assert "GEMINI_API_KEY" in str(stopped.value)


def test_the_same_model_at_another_upstream_is_no_loop(written: Write) -> None:
    models = "[[model]]\nmatch = ['gemini-9']\nfallbacks = ['one:gemini-9']\n"
    assert written(ONE, models).models.fallbacks("gemini-9") == (Target("one", "gemini-9"),)
