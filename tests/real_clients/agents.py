"""The real clients: a row for each protocol of each client, with its setup and its command.

The setup uses the output of `gemini-bridge connect`, so that the tests prove the documented steps.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codex_catalog_file import write_codex_catalog
from installed import HERE, MODULES, PLATFORM, client_environment

from bridge.connect.clients import CLIENTS, Snippet, Target

MODEL = "gemini-3.1-pro-preview"
RESPONSES, CHAT, MESSAGES, NATIVE = "Responses", "Chat Completions", "Messages", "Gemini"


@dataclass(frozen=True)
class Ran:
    """The result of a prompt."""

    said: str
    code: int


@dataclass(frozen=True)
class ShellTool:
    """The tool that a client uses to run a command."""

    name: str
    argument: str
    more: Mapping[str, Any] = field(default_factory=dict)

    def call(self, command: str) -> tuple[str, dict[str, Any]]:
        return self.name, {self.argument: command, **self.more}


@dataclass(frozen=True, kw_only=True)
class Agent(ABC):
    title: str
    protocol: str
    packages: tuple[str, ...]  #: on the npm registry
    tool: ShellTool

    @property
    def id(self) -> str:
        return f"{self.title}, {self.protocol}"

    @property
    def resumes(self) -> bool:
        """Whether a second prompt can continue the conversation."""
        return True

    @property
    def shows_thoughts(self) -> bool:
        """Whether it requests the text of thoughts. Claude Code requests thinking with `display: omitted`."""
        return self.title != "Claude Code"

    @abstractmethod
    def set_up(self, address: str, folder: Path) -> None: ...

    @abstractmethod
    def ask(self, prompt: str, folder: Path, again: bool = False) -> Ran: ...


@dataclass(frozen=True, kw_only=True)
class Command(Agent):
    """A program that takes a prompt, prints the answer and exits."""

    client: str  #: in the table of `gemini-bridge connect`
    program: str  #: below node_modules
    options: tuple[str, ...]
    again: tuple[str, ...] | None  #: further arguments that continue the last conversation
    before_prompt: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)  #: in addition to the documented variables
    files: Mapping[str, Any] = field(default_factory=dict)  #: additional files below the home folder
    swaps: Mapping[str, str] = field(default_factory=dict)  #: changes to the settings for another protocol
    #: The catalogue that users download with curl; the test needs no curl.
    fetches: Callable[[str, Path], None] = lambda _address, _home: None

    @property
    def resumes(self) -> bool:
        return self.again is not None

    def set_up(self, address: str, folder: Path) -> None:
        (folder / "project").mkdir()
        for place, content in self.files.items():
            _write(folder / place, json.dumps(content))
        target = Target(address, "any", MODEL)
        environment = dict(self.environment)
        for snippet in CLIENTS[self.client].snippets:
            environment |= self._follow(snippet, target, folder)
        self.fetches(address, folder)
        _write(folder / "environment.json", json.dumps(environment))

    def _follow(self, snippet: Snippet, target: Target, folder: Path) -> dict[str, str]:
        """Follow a snippet: write a file, run a command, or return the variables to export."""
        text = snippet.text(target)
        for old, new in self.swaps.items():
            text = text.replace(old, new)
        if snippet.language != "sh":
            if place := re.search(r"~/(\S+)", snippet.place):
                _write(folder / place[1], text)
            return {}
        lines = [shlex.split(line) for line in text.splitlines()]
        for _, *words in (line for line in lines if line[0] not in ("export", "curl")):
            self._run([*words], folder, {})
        return dict(word.split("=", 1) for line in lines if line[0] == "export" for word in line[1:])

    def ask(self, prompt: str, folder: Path, again: bool = False) -> Ran:
        environment = json.loads((folder / "environment.json").read_text())
        again_options = self.again if again and self.again else ()
        words = [*self.options, *again_options, *self.before_prompt, prompt]
        return self._run(words, folder, environment)

    def _run(self, words: list[str], folder: Path, environment: dict[str, str]) -> Ran:
        ran = subprocess.run(
            [str(MODULES / self.program), *words],
            cwd=folder / "project",
            env=client_environment(folder) | dict(self.environment) | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
        )
        return Ran(ran.stdout + ran.stderr, ran.returncode)


def _write(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


@dataclass(frozen=True, kw_only=True)
class Library(Agent):
    """The AI SDK, driven by our own program."""

    provider: str
    options: Mapping[str, Any]

    def set_up(self, address: str, folder: Path) -> None:
        _write(folder / "address", address)
        _write(folder / "messages.json", "[]")

    def ask(self, prompt: str, folder: Path, again: bool = False) -> Ran:
        history = json.loads((folder / "messages.json").read_text())
        messages = [*history, {"role": "user", "content": prompt}]
        task = {"messages": messages, "provider": self.provider, "options": self.options, "shell": True}
        told = ask_ai_sdk((folder / "address").read_text(), folder, task | {"stream": True, "model": MODEL})
        if told["errors"]:
            return Ran(json.dumps(told["errors"]), 1)
        _write(folder / "messages.json", json.dumps([*messages, *told["messages"]]))
        return Ran(str(told["text"]), 0)


def ask_ai_sdk(address: str, home: Path, task: dict[str, Any]) -> dict[str, Any]:
    """Run the program in the folder of the packages that it imports."""
    ran = subprocess.run(
        ["node", "--input-type=module", "--eval", (HERE / "ai_sdk.mjs").read_text()],
        cwd=MODULES.parent,
        env=client_environment(home),
        input=json.dumps({"address": address, **task}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


# --- the rows ----------------------------------------------------------------------------------------


def _copilot(protocol: str, swaps: dict[str, str]) -> Agent:
    return Command(
        title="Copilot CLI",
        protocol=protocol,
        client="copilot",
        packages=("@github/copilot",),
        program=".bin/copilot",
        options=("--allow-all-tools", "--no-auto-update", "--silent"),
        again=("--continue",),
        before_prompt=("--prompt",),
        tool=ShellTool("bash", "command", {"description": "Run"}),
        swaps=swaps,
    )


def _pi(protocol: str, swaps: dict[str, str]) -> Agent:
    return Command(
        title="pi",
        protocol=protocol,
        client="pi",
        packages=("@earendil-works/pi-coding-agent",),
        program=".bin/pi",
        options=("--provider", "bridge", "--print"),
        again=("--continue",),
        tool=ShellTool("bash", "command"),
        environment={"PI_OFFLINE": "1"},
        swaps=swaps,
    )


def _ai_sdk(protocol: str, provider: str, package: str, **options: Any) -> Agent:
    return Library(
        title="AI SDK",
        protocol=protocol,
        packages=("ai", package),
        provider=provider,
        options=options,
        tool=ShellTool("run_command", "command"),
    )


#: The SDK requests thoughts only for models that it knows or is told to be thinking models.
AS_A_THINKER = {"store": False, "reasoningSummary": "auto", "forceReasoning": True}

AGENTS: tuple[Agent, ...] = (
    Command(
        title="Codex",
        protocol=RESPONSES,
        client="codex",
        packages=("@openai/codex",),
        program=".bin/codex",
        options=("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        again=("resume", "--last"),
        tool=ShellTool("exec_command", "cmd"),
        fetches=write_codex_catalog,
    ),
    Command(
        title="Claude Code",
        protocol=MESSAGES,
        client="claude",
        packages=("@anthropic-ai/claude-code",),
        program=f"@anthropic-ai/claude-code-{PLATFORM}/claude",
        options=("--dangerously-skip-permissions", "--print"),
        again=("--continue",),
        tool=ShellTool("Bash", "command", {"description": "Run"}),
        environment={"DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1"},
    ),
    Command(
        title="Gemini CLI",
        protocol=NATIVE,
        client="gemini",
        packages=("@google/gemini-cli",),
        program=".bin/gemini",
        options=("--approval-mode", "yolo"),
        again=None,  # it resends every call of the history without arguments and signature
        before_prompt=("--prompt",),
        tool=ShellTool("run_shell_command", "command", {"description": "Run"}),
        environment={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        files={
            "project/.gemini/settings.json": {
                "privacy": {"usageStatisticsEnabled": False},
                "general": {"enableAutoUpdate": False},
            }
        },
    ),
    Command(
        title="opencode",
        protocol=CHAT,
        client="opencode",
        packages=(f"opencode-{PLATFORM}",),
        program=f"opencode-{PLATFORM}/bin/opencode",
        options=("run", "--auto"),
        again=("--continue",),
        tool=ShellTool("bash", "command", {"description": "Run"}),
        environment={"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
    ),
    Command(
        title="Qwen Code",
        protocol=CHAT,
        client="qwen",
        packages=("@qwen-code/qwen-code",),
        program=".bin/qwen",
        options=("--yolo",),
        again=("--continue",),
        before_prompt=("--prompt",),
        tool=ShellTool("run_shell_command", "command", {"description": "Run", "is_background": False}),
        files={
            "project/.qwen/settings.json": {
                "privacy": {"usageStatisticsEnabled": False},
                "memory": {"enableManagedAutoMemory": False},
            }
        },
    ),
    _copilot(RESPONSES, {}),
    _copilot(CHAT, {"WIRE_API=responses": "WIRE_API=completions"}),
    _copilot(MESSAGES, {"PROVIDER_WIRE_API=responses": "PROVIDER_TYPE=anthropic", "/v1": ""}),
    Command(
        title="Cline CLI",
        protocol=CHAT,
        client="cline",
        packages=(f"@cline/cli-{PLATFORM}",),
        program=".bin/cline",
        options=(),
        again=None,
        tool=ShellTool("run_commands", "commands"),
        environment={"CLINE_SESSION_BACKEND_MODE": "local"},  # else a daemon stays running
    ),
    _pi(CHAT, {}),
    _pi(RESPONSES, {"openai-completions": "openai-responses"}),
    _pi(MESSAGES, {"openai-completions": "anthropic-messages", "/v1": ""}),
    _pi(NATIVE, {"openai-completions": "google-generative-ai", "/v1": "/v1beta"}),
    _ai_sdk(RESPONSES, "responses", "@ai-sdk/openai", **AS_A_THINKER),
    _ai_sdk(CHAT, "chat", "@ai-sdk/openai", reasoningEffort="high"),
    _ai_sdk(MESSAGES, "anthropic", "@ai-sdk/anthropic", thinking={"type": "adaptive"}),
    _ai_sdk(NATIVE, "google", "@ai-sdk/google", thinkingConfig={"includeThoughts": True}),
)
