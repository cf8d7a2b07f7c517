"""The command `gemini-bridge`."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from gunicorn_bridge import ROOT

from bridge import __version__
from bridge.cli import COMMANDS, main
from bridge.settings import KNOWN

CONFIG = ROOT / "config"
CANARY = "AIzaCanary-0123456789-never-to-be-seen"
ON_THE_OUTSIDE = (
    "GEMINI_",
    "GOOGLE_",
    "CODER_AGENT_PORT",
    "DEBUG",
    "DEFAULT_MODEL",
    "USE_CCPA",
    "CREDENTIALS",
)


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The delivered configuration, without this machine's local.toml and environment."""
    for name in list(os.environ):
        if name.startswith(("BRIDGE_", *ON_THE_OUTSIDE)):
            monkeypatch.delenv(name)
    folder = tmp_path / "config"
    shutil.copytree(CONFIG, folder, ignore=shutil.ignore_patterns("local.toml"))
    monkeypatch.setenv("BRIDGE_CONFIG_DIR", str(folder))
    return folder


def test_settings_prints_every_setting_its_value_and_its_origin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], config: Path
) -> None:
    monkeypatch.setenv("BRIDGE_SERVER__PORT", "8080")
    assert main(["settings"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line.split(maxsplit=2) for line in lines if line}
    assert rows["SETTING"] == ["SETTING", "VALUE", "FROM"]
    assert set(KNOWN) <= set(rows)
    assert rows["server.port"] == ["server.port", "8080", "environment BRIDGE_SERVER__PORT"]
    assert rows["log.debug"][1] == "false"
    assert rows["upstream.api_keys"][1:] == ["none", "built in"]
    assert rows["models.default"][2] == str(config / "models.toml")
    assert lines[-1] == "Upstream in force: demo"


def test_settings_are_printed_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEBUG", "1")
    assert main(["settings", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["transport_in_force"] == "demo"
    assert printed["settings"]["log.debug"] == {"value": True, "origin": "environment DEBUG"}
    assert set(printed["settings"]) == {*KNOWN, "models.default"}


@pytest.mark.parametrize("arguments", [["settings"], ["settings", "--json"]])
def test_no_output_holds_a_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", f"{CANARY},tooshort")
    assert main(arguments) == 0
    monkeypatch.setenv("GEMINI_API_KEY", f"{CANARY} {CANARY}")
    assert main(arguments) == 2
    captured = capsys.readouterr()
    printed = captured.out + captured.err
    assert CANARY not in printed
    assert "tooshort" not in printed
    assert CANARY[-4:] in captured.out
    assert CANARY[-5:] not in printed


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("BRIDGE_SERVER_PORT", "1", "did you mean BRIDGE_SERVER__PORT?"),
        ("CODER_AGENT_PORT", "none", "server.port must be a whole number from 1 to 65535, not 'none'"),
        ("USE_CCPA", "perhaps", "environment USE_CCPA: must be 1 or 0"),
    ],
)
def test_invalid_settings_print_a_message_and_exit_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    assert main(["settings"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"gemini-bridge: environment {name}: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"gemini-bridge {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["settings", "--nonsense"]])
def test_wrong_arguments_say_where_the_help_is_and_exit_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "gemini-bridge" in (printed := capsys.readouterr().err)
    assert "--help" in printed


def test_every_command_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert name in printed
        assert command.help in printed


def test_an_ascii_terminal_still_gets_output(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written = io.BytesIO()
    monkeypatch.setenv("GEMINI_API_KEY", CANARY)
    monkeypatch.setenv("BRIDGE_STATE_DIR", str(tmp_path / "état"))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", write_through=True))
    assert main(["settings"]) == 0
    assert CANARY[-4:].encode() in written.getvalue()
