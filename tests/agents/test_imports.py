"""What is not configured costs nothing; and nothing here can start a process."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from agent_bridge import agent_bridge
from gunicorn_bridge import ROOT, gunicorn_bridge
from scripted_gemini import ScriptedGemini

PROGRAM = "tests.support.listed_modules:app"
#: Modules with which a process could be started, and modules that could import or execute others.
FORBIDDEN = frozenset(
    {
        *("subprocess", "pty", "multiprocessing", "concurrent", "asyncio", "ctypes", "runpy", "code"),
        *("importlib", "popen2", "pexpect", "sh", "plumbum", "posix", "signal", "commands"),
    }
)
FORBIDDEN_CALLS = frozenset(
    {
        *(
            "system",
            "popen",
            "fork",
            "forkpty",
            "execv",
            "execve",
            "execvp",
            "execl",
            "execlp",
            "posix_spawn",
        ),
        *("spawnl", "spawnv", "spawnlp", "spawnvp", "startfile", "eval", "exec", "compile", "__import__"),
    }
)


def loaded(address: str) -> list[str]:
    modules = requests.get(f"{address}/healthz/modules", timeout=10).json()
    return [name for name in modules if name.startswith(("bridge.agents", "bridge.settings.agents"))]


def test_nothing_is_imported_without_agents() -> None:
    with gunicorn_bridge(PROGRAM, GEMINI_API_KEY="AIzaCanary0123456789abcdefghijklmnopqrs") as bridge:
        assert loaded(bridge.address) == []


def test_the_demo_agent_is_imported_when_it_is_first_asked() -> None:
    with gunicorn_bridge(PROGRAM, BRIDGE_SERVER__WORKERS="1") as bridge:
        listed = requests.get(f"{bridge.address}/v1/models", timeout=10).json()["data"]
        assert "agent/guide" in {model["id"] for model in listed}
        assert [name for name in loaded(bridge.address) if name.startswith("bridge.agents")] == []
        body = {"model": "agent/guide", "messages": [{"role": "user", "content": "Where is the port?"}]}
        assert requests.post(f"{bridge.address}/v1/chat/completions", json=body, timeout=20).ok
        assert "bridge.agents.tool_loop" in loaded(bridge.address)


def test_a_mistake_in_the_files_stops_the_start(tmp_path: Path) -> None:
    broken = '[[agent]]\nname = "a"\nmodel = "m"\ninstruction = "i"\noutput = { type = "strin" }\n'
    gemini = ScriptedGemini()
    with (
        pytest.raises(AssertionError, match="'strin' is not a type of JSON"),
        agent_bridge(gemini, tmp_path, broken),
    ):
        pass
    gemini.close()


def names_in(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (("import", alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "import", str(node.module).split(".")[0]
            yield from (("name", alias.name) for alias in node.names)
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute):
                is_module = isinstance(called.value, ast.Name) and called.value.id == "os"
                yield ("name" if is_module else "method"), called.attr
            elif isinstance(called, ast.Name):
                yield "name", called.id


@pytest.mark.parametrize(
    "path", sorted((ROOT / "bridge" / "agents").rglob("*.py")), ids=lambda path: path.stem
)
def test_no_module_can_start_a_process(path: Path) -> None:
    found = set(names_in(path))
    assert not {name for kind, name in found if kind == "import"} & FORBIDDEN
    assert not {name for kind, name in found if kind == "name"} & FORBIDDEN_CALLS
