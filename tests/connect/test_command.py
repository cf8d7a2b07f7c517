"""The command `gemini-bridge connect`: settings on stdout, messages on stderr, an exit code."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from pathlib import Path

import pytest
import requests
from gunicorn_bridge import ROOT, free_port

from bridge.cli import main
from bridge.connect.clients import CLIENTS


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in [name for name in os.environ if name.startswith(("BRIDGE_", "CODER_", "DEFAULT_MODEL"))]:
        monkeypatch.delenv(name)
    folder = tmp_path / "config"
    shutil.copytree(ROOT / "config", folder, ignore=shutil.ignore_patterns("local.toml"))
    monkeypatch.setenv("BRIDGE_CONFIG_DIR", str(folder))
    return folder


def test_without_a_client_all_are_listed(capsys):
    assert main(["connect"]) == 0
    printed = capsys.readouterr().out
    for client in CLIENTS.values():
        assert f"\n{client.name} " in printed
        assert client.title in printed


@pytest.mark.parametrize("name", CLIENTS)
def test_standard_output_has_the_settings_and_nothing_else(name, capsys):
    assert main(["connect", name, "--url", "http://b:1/", "--key", "gbk_k", "--model", "m"]) == 0
    printed = capsys.readouterr()
    client = CLIENTS[name]
    assert client.main.place in printed.err
    assert all(note in printed.err for note in client.notes)
    assert "gbk_your_key" not in printed.out + printed.err
    assert f"gemini-bridge connect {name} --url http://b:1 --model m --probe" in printed.err
    for snippet in client.snippets[1:]:
        assert snippet.place in printed.err
        assert snippet.place not in printed.out


def test_the_settings_of_this_machine_are_the_default(capsys, monkeypatch):
    monkeypatch.setenv("BRIDGE_SERVER__PORT", "8080")
    monkeypatch.setenv("BRIDGE_SERVER__HOST", "0.0.0.0")
    monkeypatch.setenv("BRIDGE_CONNECT__MODEL", "gemini-x")
    assert main(["connect", "codex"]) == 0
    printed = capsys.readouterr()
    settings = tomllib.loads(printed.out)
    assert settings["model_providers"]["bridge"]["base_url"] == "http://127.0.0.1:8080/v1"
    assert settings["model"] == "gemini-x"
    assert "Replace gbk_your_key with your key" in printed.err


def test_an_ipv6_address_is_written_in_brackets(capsys, monkeypatch):
    monkeypatch.setenv("BRIDGE_SERVER__HOST", "::1")
    main(["connect", "claude"])
    assert "export ANTHROPIC_BASE_URL='http://[::1]:41242'\n" in capsys.readouterr().out


def test_the_key_may_come_from_the_environment_but_an_argument_wins(capsys, monkeypatch):
    monkeypatch.setenv("BRIDGE_KEY", "gbk_environment")
    main(["connect", "claude"])
    assert "TOKEN=gbk_environment\n" in capsys.readouterr().out
    main(["connect", "claude", "--key", "gbk_argument"])
    assert "TOKEN=gbk_argument\n" in capsys.readouterr().out


def test_settings_are_not_needed_when_all_arguments_are_given(capsys, monkeypatch):
    monkeypatch.setenv("BRIDGE_CONFIG_DIR", "/nowhere")
    assert main(["connect", "claude", "--url", "https://bridge.example", "--model", "m"]) == 0
    assert main(["connect", "claude", "--url", "https://bridge.example"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kodex"], "kodex is not a known client; did you mean codex?"),
        (["--probe"], "--probe needs a client: codex, claude"),
        (["codex", "--url", "bridge:41242"], "--url must be an http:// or https:// address"),
        (["codex", "--url", "http://me:secret@bridge"], "--url must be an http:// or https:// address"),
        (["codex", "--url", "http://bridge/v1"], "--url must not end with /v1"),
        (["codex", "--key", "two words"], "the key must be ASCII letters"),
        (["claude", "--catalog", "models.json"], "--catalog: claude does not use a catalogue; only codex"),
    ],
)
def test_wrong_arguments_print_a_message_and_exit_2(arguments, message, capsys):
    assert main(["connect", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("gemini-bridge: ")
    assert message in printed.err
    assert "secret" not in printed.err
    assert printed.err.count("\n") == 1


def test_a_successful_probe_prints_green_lines_and_exits_0(capsys, demo_bridge):
    assert main(["connect", "codex", "--url", demo_bridge.address, "--probe"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert "Codex CLI" in first
    assert demo_bridge.address in first
    assert [line[0] for line in lines] == ["✓"] * 3


def test_a_failed_probe_prints_a_red_line_with_a_remedy_and_exits_1(capsys):
    address = f"http://127.0.0.1:{free_port()}"
    assert main(["connect", "claude", "--url", address, "--probe"]) == 1
    _, line, remedy = capsys.readouterr().out.splitlines()
    assert line.startswith("✗ streamed text")
    assert "connection refused" in line
    assert remedy.strip().startswith("→ Is the bridge running there?")


def test_colours_are_used_only_on_terminals(capsys, monkeypatch, demo_bridge):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    main(["connect", "curl", "--url", demo_bridge.address, "--probe"])
    assert "\x1b[32m✓\x1b[0m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    main(["connect", "curl", "--url", demo_bridge.address, "--probe"])
    assert "\x1b" not in capsys.readouterr().out


# --- the catalogue for Codex -------------------------------------------------------------------------


def test_the_catalogue_is_written_and_the_settings_name_it(capsys, demo_bridge, tmp_path):
    place = tmp_path / "my models.json"
    arguments = ["connect", "codex", "--url", demo_bridge.address, "--catalog", str(place)]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert tomllib.loads(printed.out)["model_catalog_json"] == str(place)
    assert "curl" not in printed.err, "there is nothing left to fetch"
    models = {model["slug"]: model for model in json.loads(place.read_text())["models"]}
    assert models["gemini-flash-latest"]["context_window"] == 1048576
    served = requests.get(f"{demo_bridge.address}/connect/codex-models.json", timeout=10)
    assert served.json() == json.loads(place.read_text())


def test_a_relative_catalogue_path_is_shown_as_absolute(capsys, demo_bridge, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["connect", "codex", "--url", demo_bridge.address, "--catalog", "models.json"]) == 0
    assert tomllib.loads(capsys.readouterr().out)["model_catalog_json"] == str(tmp_path / "models.json")


@pytest.mark.parametrize("place", ["nowhere/models.json", "."])
def test_a_catalogue_that_cannot_be_written_is_named(capsys, demo_bridge, tmp_path, place):
    file = tmp_path / place
    assert main(["connect", "codex", "--url", demo_bridge.address, "--catalog", str(file)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"gemini-bridge: --catalog: {file} cannot be written: ")


def test_a_catalogue_needs_a_running_bridge(capsys, tmp_path):
    address = f"http://127.0.0.1:{free_port()}"
    place = tmp_path / "models.json"
    assert main(["connect", "codex", "--url", address, "--catalog", str(place)]) == 2
    assert f"--catalog: {address}: connection refused. Is the bridge running" in capsys.readouterr().err
    assert not place.exists()
