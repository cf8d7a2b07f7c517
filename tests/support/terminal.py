"""Runs a program at a terminal, as a person would."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waiting import eventually


class Terminal:
    """`shown` is everything that the program wrote so far."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self._read: list[bytes] = []
        threading.Thread(target=self._collect, daemon=True).start()

    @property
    def shown(self) -> str:
        return b"".join(self._read).decode("utf-8", "replace").replace("\r\n", "\n")

    def shows(self, text: str) -> bool:
        return eventually(lambda: text in self.shown)

    def press(self, keys: bytes) -> None:
        os.write(self._descriptor, keys)

    def _collect(self) -> None:
        while True:
            try:
                read = os.read(self._descriptor, 4096)
            except OSError:  # the program has ended
                return
            if not read:
                return
            self._read.append(read)


CTRL_C = b"\x03"
#: Makes the terminal the controlling one, so that Ctrl-C reaches the program. Then it becomes the program.
_TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@contextmanager
def terminal(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _TAKE_TERMINAL, *command],
        cwd=folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        # Background test runs ignore this signal, and programs inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        os.close(ours)
