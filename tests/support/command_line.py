"""The command `gemini-bridge` in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from gunicorn_bridge import ROOT, clean_environment

RUN = "import sys; from bridge.cli import main; sys.exit(main(sys.argv[1:]))"


def attempt(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN, *arguments],
        cwd=ROOT,
        env=clean_environment() | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def command(*arguments: str, **environment: str) -> str:
    """What the command prints. It must succeed, without a warning."""
    done = attempt(*arguments, **environment)
    assert (done.returncode, "Warning" in done.stderr) == (0, False), done.stderr
    return done.stdout
