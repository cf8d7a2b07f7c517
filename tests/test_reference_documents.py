"""The generated documents are current, and the documents quote only what the code says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from gunicorn_bridge import ROOT

GENERATED = {"settings": "SETTINGS.md", "errors": "ERRORS.md", "metrics": "METRICS.md"}


@pytest.mark.parametrize("generator", GENERATED)
def test_a_generated_document_is_current(generator):
    # In another process, because an import of all metrics registers them.
    code = f"import runpy; print(runpy.run_path('docs/{generator}.py')['page'](), end='')"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (ROOT / "docs" / GENERATED[generator]).read_text() == ran.stdout, "run: make diagrams"
    assert f"docs/{generator}.py" in (ROOT / "Makefile").read_text()


def texts_of_the_code() -> Iterator[str]:
    """Every text in the code; what is filled in at run time is `…`."""
    for path in (ROOT / "bridge").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"\{\w*\}", "…", node.value)


def quoted_messages() -> list[str]:
    text = (ROOT / "docs" / "TROUBLESHOOTING.md").read_text()
    return re.findall(r"^> (.+)$", text, re.MULTILINE)


def is_quoted(message: str, texts: str) -> bool:
    pieces = [re.escape(piece) for piece in message.split("…")]
    return re.search(r"[^\n]*?".join(pieces), texts) is not None


def test_every_quoted_message_is_in_the_code():
    texts = "\n".join(each.replace("\n", " ") for each in texts_of_the_code())
    messages = quoted_messages()
    assert len(messages) > 20
    assert [each for each in messages if not is_quoted(each, texts)] == []
    assert not is_quoted("There is no valid … potato", texts)


def test_every_command_named_in_the_new_documents_exists():
    from bridge.cli import COMMANDS

    for name in ("FAQ.md", "TROUBLESHOOTING.md", "CONCEPTS.md", "MIGRATING-FROM-LITELLM.md"):
        path = ROOT / "docs" / name
        for command in re.findall(r"gemini-bridge (\w+)", path.read_text()):
            assert command in COMMANDS, f"{name}: {command}"
