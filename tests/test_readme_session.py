"""The first session in README.md: its commands run, and print what it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gunicorn_bridge import ROOT, Bridge, clean_environment, gunicorn_bridge

HOME = "http://127.0.0.1:41242"
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
COMMAND = ".venv/bin/gemini-bridge "


def steps() -> Iterator[tuple[str, str]]:
    """Each command of the session, and what it prints."""
    (session,) = CONSOLE.findall((ROOT / "README.md").read_text())
    for step in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, output = step.partition("\n")
        yield command, output.strip()


def matches(shown: str, printed: str) -> bool:
    """`…` stands for any text; the amount of white space does not matter."""
    pieces = [re.escape(piece) for piece in " ".join(shown.split()).split("…")]
    return re.search(".*?".join(pieces), " ".join(printed.split())) is not None


@pytest.fixture(scope="module")
def bridge(tmp_path_factory) -> Iterator[Bridge]:
    with gunicorn_bridge(BRIDGE_STATE_DIR=str(tmp_path_factory.mktemp("state"))) as bridge:
        yield bridge


def printed_by(command: str, bridge: Bridge) -> str:
    if command == "make run":
        return bridge.lines()
    program = str(Path(sys.executable).with_name("gemini-bridge"))
    arguments = command.removeprefix(COMMAND).split()
    if arguments[0] == "connect":
        arguments += ["--url", bridge.address]
    environment = {**clean_environment(), "BRIDGE_STATE_DIR": str(bridge.state)}
    ran = subprocess.run(
        [program, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    return f"{ran.stderr}\n{ran.stdout}"


def test_the_session_prints_what_the_readme_shows(bridge):
    commands = list(steps())
    assert commands[0][0] == "make run"
    assert all(command.startswith(("make run", COMMAND)) for command, _ in commands)
    for command, shown in commands:
        printed = printed_by(command, bridge).replace(bridge.address, HOME)
        printed = re.sub(r"run \S*gemini-bridge connect", "run .venv/bin/gemini-bridge connect", printed)
        printed = re.sub(r"`\S*gemini-bridge key", "`.venv/bin/gemini-bridge key", printed)
        assert matches(shown, printed), f"$ {command}\n{printed}"


def test_a_difference_from_the_session_is_found():
    assert matches("one … three", "one   two\nthree")
    assert not matches("one … three", "one two four")
    assert not matches("a.c", "abc")
