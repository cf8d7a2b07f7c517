"""Installs the newest version of every pinned client into `latest/`, one by one.

A client that cannot be installed does not keep the others away; the matrix says why it was not run.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

from installed import HERE, pinned

FOLDER = HERE / "latest"
NPM = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


def install(package: str) -> str | None:
    """Nothing, or why it failed."""
    ran = subprocess.run([*NPM, f"{package}@latest"], cwd=FOLDER, capture_output=True, text=True)
    lines = [line.removeprefix("npm error ") for line in ran.stderr.splitlines()]
    return None if ran.returncode == 0 else next(line for line in [*lines[1:], *lines, "npm failed"] if line)


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    (FOLDER / "package.json").write_text('{"private": true}\n')
    failures = {}
    for package in pinned():
        sys.stdout.write(f"{package} … ")
        sys.stdout.flush()
        why = install(package)
        sys.stdout.write(f"{why or 'installed'}\n")
        if why:
            failures[package] = why
    (FOLDER / "failures.json").write_text(json.dumps(failures))


if __name__ == "__main__":
    main()
