"""The command `gemini-bridge check`."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest
from gunicorn_bridge import ROOT

from bridge.cli import main


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    shutil.copytree(ROOT / "config", folder, ignore=shutil.ignore_patterns("local.toml"))
    monkeypatch.setenv("BRIDGE_CONFIG_DIR", str(folder))
    return folder


def wrong(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the reported errors."""
    assert main(["check"]) == 2
    printed = capsys.readouterr()
    assert not printed.out.endswith("ok\n") or "wrong" in printed.out
    assert "Traceback" not in printed.err
    return printed.err.splitlines()


def test_passed_checks_are_listed_and_end_with_ok(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    (config / "local.toml").write_text("[server]\nworkers = 3\n")
    assert main(["check"]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    for name in ("default.toml", "guards.toml", "models.toml", "local.toml"):
        assert any(line.startswith(f"{config / name} ") and line.endswith("ok") for line in lines)
    assert any(line.startswith("gunicorn.conf.py") and "is 3 × " in line for line in lines)
    assert any(line.startswith("application") for line in lines)
    assert lines[-1] == "ok"
    assert printed.err == ""


def test_the_check_command_uses_no_network_and_leaves_no_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, canary_key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def nobody(*_: object) -> None:
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket.socket, "connect", nobody)
    monkeypatch.setenv("GEMINI_API_KEY", f"{canary_key},second-key-of-ours")
    (tmp_path / "state").mkdir()
    assert main(["check"]) == 0
    assert list((tmp_path / "state").iterdir()) == []
    printed = capsys.readouterr().out
    assert "2 keys" in printed
    assert canary_key not in printed


def test_every_broken_file_is_reported_in_one_run(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (config / "local.toml").write_text("[server]\nthraeds = 1\n")
    (config / "models.toml").write_text("default = 7\n")
    (config / "guards.toml").write_text("modes = [\n")
    told = wrong(capsys)
    assert len(told) == 3
    assert all(line.startswith("gemini-bridge: ") for line in told)
    assert any("server.thraeds is not a setting; did you mean threads?" in line for line in told)
    assert any("models.toml: default must be a list of texts" in line for line in told)
    assert any("guards.toml: invalid TOML" in line for line in told)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("BRIDGE_SERVER__PORT", "none", "server.port must be a whole number"),
        ("BRIDGE_UPSTREAM__TRANSPORT", "gemni", "upstream.transport is 'gemni'"),
        ("BRIDGE_UPSTREAM__TRANSPORT", "gemini", "no API key is set"),
        ("BRIDGE_SERVER__HOST", "0.0.0.0", "which others can reach, and no key is defined"),
        ("BRIDGE_STATE_DIR", "/dev/null/state", "the state folder /dev/null/state cannot be created"),
        ("BRIDGE_STATE_DIR", "/proc/self/task", "the state folder /proc/self/task is not writable"),
        ("GUNICORN_CMD_ARGS", "--thrads 3", "GUNICORN_CMD_ARGS: error: unrecognized arguments: --thrads"),
        ("GUNICORN_CMD_ARGS", "--worker-class nonsense", "nonsense"),
    ],
)
def test_problems_that_would_stop_the_start_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    assert any(message in line for line in wrong(capsys))


def test_a_missing_config_folder_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BRIDGE_CONFIG_DIR", "/no/such/folder")
    assert wrong(capsys) == [
        "gemini-bridge: environment BRIDGE_CONFIG_DIR: the folder /no/such/folder does not exist"
    ]


def test_an_application_that_cannot_be_built_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no routes today")

    monkeypatch.setattr("bridge.web.app.create_app", broken)
    assert wrong(capsys) == ["gemini-bridge: application: RuntimeError: no routes today"]


def test_an_unused_config_file_is_reported(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (config / "model.toml").write_text("default = 'x'\n")
    assert main(["check"]) == 0
    assert "ignored: the bridge does not use a file with this name" in capsys.readouterr().out


def test_a_missing_guards_file_falls_back_to_the_delivered_one(config: Path) -> None:
    (config / "guards.toml").unlink()
    assert main(["check"]) == 0


def test_a_missing_models_file_is_reported(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (config / "models.toml").unlink()
    assert any("models.toml: the file does not exist" in line for line in wrong(capsys))
