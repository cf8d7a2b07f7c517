"""The completion scripts, in the real shells."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from command_line import command

from bridge.cli import COMMANDS
from bridge.connect.clients import CLIENTS

SHELLS = {shell: shutil.which(shell) for shell in ("bash", "zsh", "fish")}
PATH = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

#: What is typed, and the words that are offered.
OFFERS = [
    ("", set(COMMANDS)),
    ("key ", {"add", "list", "show", "set", "rotate", "revoke"}),
    ("key re", {"revoke"}),
    ("connect co", {name for name in CLIENTS if name.startswith("co")}),
    ("connect codex --cat", {"--catalog"}),
    ("key add alice --exp", {"--expires"}),
    ("key add alice --strict ", {"yes", "no"}),
    ("state copy --from ", {"sqlite", "postgres"}),
    ("usage --since 7d --cs", {"--csv"}),
    ("completion ", {"bash", "zsh", "fish"}),
    ("context explain req", {"request.json"}),
    ("connect codex --catalog req", {"request.json"}),
    ("status ", set()),
]


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(SHELLS[shell] is None, reason=f"{shell} is not installed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "request.json").write_text("{}")
    for shell in SHELLS:
        (tmp_path / f"script.{shell}").write_text(command("completion", shell))
    return tmp_path


def run(shell: str, script: str, folder: Path) -> str:
    done = subprocess.run(
        [SHELLS[shell], "-c", script],
        cwd=folder,
        env=PATH | {"HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


@needs("bash")
@pytest.mark.parametrize(("typed", "offered"), OFFERS)
def test_bash(typed: str, offered: set[str], folder: Path) -> None:
    words = ["gemini-bridge", *typed.split(), *([""] if typed.endswith(" ") or not typed else [])]
    quoted = " ".join(f"'{word}'" for word in words)
    # `compopt` works only while the shell itself completes.
    script = (
        "source script.bash; compopt() { :; }; "
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _gemini_bridge; "
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    assert set(run("bash", script, folder).split()) == offered


@needs("fish")
@pytest.mark.parametrize(("typed", "offered"), OFFERS)
def test_fish(typed: str, offered: set[str], folder: Path) -> None:
    told = run("fish", f"source script.fish; complete -C 'gemini-bridge {typed}'", folder)
    assert {line.split("\t")[0] for line in told.splitlines()} == offered


@needs("zsh")
@pytest.mark.parametrize(("typed", "offered"), OFFERS)
def test_zsh(typed: str, offered: set[str], folder: Path) -> None:
    """zsh completes only in its line editor, so this types into a terminal."""
    (folder / "_gemini-bridge").write_text((folder / "script.zsh").read_text())
    (folder / ".zshrc").write_text(ZSHRC)
    told = type_into_zsh(f"gemini-bridge {typed}\t", folder)
    assert set(told.split()) == offered


#: `compadd` shows the words that it was given and that fit what is typed.
ZSHRC = r"""
PS1='ready>'
unsetopt zle_bracketed_paste
fpath=($PWD $fpath)
autoload -Uz compinit && compinit -u -D
compadd() {
    local -a __hits
    builtin compadd -O __hits "$@"
    print -rl -- $__hits >> offered
    builtin compadd "$@"
}
zstyle ':completion:*' verbose no
finish() { zle complete-word; : >> finished; }
zle -N finish
bindkey '^I' finish
"""


def type_into_zsh(text: str, folder: Path) -> str:
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        environment = PATH | {"HOME": str(folder), "ZDOTDIR": str(folder), "TERM": "dumb"}
        os.execve(SHELLS["zsh"], ["zsh", "-i"], environment)
    try:
        wait_for(terminal, lambda shown: "ready>" in shown)
        os.write(terminal, text.encode())
        wait_for(terminal, lambda _shown: (folder / "finished").exists())
    finally:
        os.kill(process, 9)
        os.waitpid(process, 0)
        os.close(terminal)
    offered = folder / "offered"
    return offered.read_text() if offered.exists() else ""


def wait_for(terminal: int, done, seconds: float = 30) -> None:
    shown, deadline = "", time.monotonic() + seconds
    while not done(re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", shown)):
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 0.05)[0]:
            shown += os.read(terminal, 4096).decode("utf-8", "replace")
