"""A bridge with agents in its configuration, on a scripted Gemini."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gunicorn_bridge import ROOT, Bridge, gunicorn_bridge
from scripted_gemini import Asked, ScriptedGemini, call_chunk, sse, text_chunk

FILES = {
    "app.py": "from store import Store\n\n\nclass App:\n    store = Store()\n",
    "store.py": "class Store:\n    pass\n",
}

AGENTS = """
[[workspace]]
name = "code"
folder = "code"

[[agent]]
name = "analyst"
description = "Analyses a module"
model = "gemini-3.8-flash"
instruction = "Analyse the code."
query = "Analyse this: {{query}}"
tools = ["code__*"]
temperature = 0
rounds = 4
seconds = 120
[agent.output]
type = "object"
required = ["module", "classes"]
[agent.output.properties.module]
type = "string"
[agent.output.properties.classes]
type = "array"
items = { type = "string" }

[[agent]]
name = "reader"
model = "gemini-3.8-flash"
instruction = "Answer questions about the code."
tools = ["code__read_file"]
agents = ["analyst"]
"""

RESULT = {"module": "app", "classes": ["App", "Store"]}


@contextmanager
def agent_bridge(gemini: ScriptedGemini, folder: Path, agents: str = AGENTS, **more: str) -> Iterator[Bridge]:
    """The settings are in `folder`, and so is the workspace `code`."""
    config = shutil.copytree(ROOT / "config", folder / "config", ignore=shutil.ignore_patterns("local.toml"))
    (config / "agents").mkdir()
    (config / "agents" / "agents.toml").write_text(agents)
    (folder / "code").mkdir()
    for name, text in FILES.items():
        (folder / "code" / name).write_text(text)
    environment = {
        "BRIDGE_CONFIG_DIR": str(config),
        "GEMINI_API_KEY": "AIzaCanary0123456789abcdefghijklmnopqrs",
        "GOOGLE_GEMINI_BASE_URL": gemini.address,
        "BRIDGE_SERVER__HEARTBEAT": "0.3",
        "BRIDGE_UPSTREAM__ATTEMPTS": "1",
        **more,
    }
    with gunicorn_bridge(**environment) as running:
        yield running


def results_in(asked: Asked) -> dict[str, Any]:
    """The results of tools in the last turn, by the name of the tool."""
    parts = asked.body["contents"][-1]["parts"]
    found = [part["functionResponse"] for part in parts if "functionResponse" in part]
    return {each["name"]: each["response"] for each in found}


def declared(asked: Asked) -> list[str]:
    functions = [
        each for tool in asked.body.get("tools", []) for each in tool.get("functionDeclarations", [])
    ]
    return [each["name"] for each in functions]


def analyst(asked: Asked) -> Any:
    """A model that lists the folder and reads both files, and hands in what it found."""
    if not (results := results_in(asked)):
        looks = [call_chunk("code__list_directory", {}, "c1", "bG9vaw==")]
        reads = [call_chunk("code__read_file", {"path": name}, f"r{name}") for name in FILES]
        return sse(text_chunk("Let me look."), *looks, *reads, text_chunk("", "STOP"))
    assert "code__read_file" in results, results
    return sse(call_chunk("complete_task", {"output": RESULT}, "t1", "ZG9uZQ=="), text_chunk("", "STOP"))


def in_turn(*answers: Callable[[Asked], Any]) -> Callable[[Asked], Any]:
    waiting = list(answers)
    return lambda asked: (waiting.pop(0) if len(waiting) > 1 else waiting[0])(asked)
