"""Installs the newest version of every pinned client into `latest/`, one by one.

A client that cannot be installed does not stop the others; the matrix says why it was not run.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

from installed import HERE, pinned

FOLDER = HERE / "latest"
NPM = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


def install(package: str) -> str | None:
    """Install the package; return the reason of a failure, or nothing."""
    ran = subprocess.run([*NPM, f"{package}@latest"], cwd=FOLDER, capture_output=True, text=True)
    lines = re.findall(r"^npm error (?:notarget |404 )?(?!code )(.+)$", ran.stderr, re.MULTILINE)
    return None if ran.returncode == 0 else (lines or ["npm failed"])[0]


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
