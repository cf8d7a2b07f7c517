"""An installation in a scratch root: the real script and documents, with every path moved below a folder."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests
from gunicorn_bridge import ROOT, clean_environment, free_port
from unit_file import directives
from waiting import eventually

OPERATIONS = ROOT / "docs" / "OPERATIONS.md"
#: The files that the install script copies, and so all that a release must hold.
SHIPPED = re.search(r"contents='(.*?)'", (ROOT / "deploy" / "install.sh").read_text(), re.DOTALL)[1].split()

#: Commands that a scratch root lacks; these stubs only report that they were called.
ABSENT = ("systemctl", "journalctl", "nginx", "chown")
SUDO = '#!/bin/sh\nexec env "$@"\n'


def blocks(heading: str) -> list[str]:
    """Return the commands below a heading of docs/OPERATIONS.md."""
    _, _, rest = OPERATIONS.read_text().partition(f"\n## {heading}\n")
    section, _, _ = rest.partition("\n## ")
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def copy_of_the_project(folder: Path, version: str) -> Path:
    folder.mkdir()
    for name in SHIPPED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, folder / name)
    about = folder / "bridge" / "__init__.py"
    about.write_text(re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', about.read_text()))
    return folder


@dataclass
class Scratch:
    root: Path
    tools: Path
    environment: dict[str, str]
    client_key: str = ""

    @classmethod
    def below(cls, folder: Path, wheels: Path) -> Scratch:
        tools = folder / "tools"
        tools.mkdir()
        for name in ABSENT:
            _script(tools / name, f'#!/bin/sh\necho "{name} $*"\n')
        _script(tools / "sudo", SUDO)
        root = folder / "root"
        environment = clean_environment() | {
            "DESTDIR": str(root),
            "PATH": f"{tools}:{root}/usr/local/bin:{os.environ['PATH']}",
            "PIP_NO_INDEX": "1",  # an ordinary installation from a local folder
            "PIP_FIND_LINKS": str(wheels),
        }
        return cls(root, tools, environment)

    def path(self, place: str) -> Path:
        return self.root / place.lstrip("/")

    def moved(self, text: str) -> str:
        """Move the machine's paths below the scratch root."""
        text = re.sub(r"(?<![\w.}/])/(etc|var|opt|usr/local)/", rf"{self.root}/\1/", text)
        return text.replace(" -C / ", f" -C {self.root} ")

    def run(self, command: str, folder: Path = ROOT, **options) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-euc", self.moved(command)],
            cwd=folder,
            env=self.environment,
            timeout=240,
            check=False,
            **{"capture_output": True, "text": True, "stdin": subprocess.DEVNULL, **options},
        )

    def install(self, *options: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
        return self.run(shlex.join(["deploy/install.sh", *options]), folder)

    def release(self, link: str = "current") -> str:
        return (self.path("/opt/gemini-bridge") / link).resolve().name

    def written_environment(self) -> dict[str, str]:
        """Read the unit's environment file like systemd does."""
        file = self.path("/etc/gemini-bridge/env")
        lines = file.read_text().splitlines() if file.exists() else []
        return dict(line.replace('"', "").split("=", 1) for line in lines if "=" in line)

    def unit_environment(self) -> dict[str, str]:
        plain = dict(line.split("=", 1) for line in directives()["Environment"])
        return {
            "PATH": os.environ["PATH"],
            **{name: self.moved(value) for name, value in plain.items()},
            "CREDENTIALS_DIRECTORY": str(self.path("/etc/gemini-bridge/credentials")),
            **self.written_environment(),
        }

    @contextmanager
    def service(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run the unit's start command like systemd does, with a socket that receives READY=1."""
        (folder,), (line,) = directives()["WorkingDirectory"], directives()["ExecStart"]
        place = self.path("/notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(str(place))
            ready.settimeout(60)
            process = subprocess.Popen(
                shlex.split(self.moved(line)),
                cwd=self.moved(folder),
                env=self.unit_environment() | {"NOTIFY_SOCKET": str(place)},
                stderr=subprocess.DEVNULL,
            )
            try:
                assert b"READY=1" in ready.recv(1000)
                yield process
            finally:
                process.terminate()
                process.wait(60)
                place.unlink()

    def reload(self, process: subprocess.Popen[bytes]) -> bool:
        """Run the reload commands in order until one fails, like systemd does."""
        for line in directives()["ExecReload"]:
            command = shlex.split(self.moved(line).replace("$MAINPID", str(process.pid)))
            folder = self.moved(directives()["WorkingDirectory"][0])
            environment = self.unit_environment()
            if subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, timeout=60, check=False
            ).returncode:
                return False
        return True


def choose_port(scratch: Scratch) -> str:
    port = free_port()
    scratch.path("/etc/gemini-bridge/env").write_text(f'# where nobody else is\nCODER_AGENT_PORT="{port}"\n')
    return f"http://127.0.0.1:{port}"


def answer_of(address: str, key: str = "none") -> str:
    headers = {"Authorization": f"Bearer {key}"}
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "Who are you?"}]}

    def answered() -> str:
        try:
            answer = requests.post(f"{address}/v1/chat/completions", json=body, headers=headers, timeout=30)
        except requests.ConnectionError:
            return ""
        if not answer.ok:
            return ""
        return answer.json()["choices"][0]["message"]["content"]

    return eventually(answered)


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
