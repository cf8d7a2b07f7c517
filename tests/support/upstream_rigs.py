"""Test rigs for the upstreams that call a server: how to create each, and how it writes Gemini's JSON."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import other_forms
from scripted_gemini import Reply, ScriptedGemini, sse
from scripted_tokens import TokenServer, gemini_cli_login, service_account

from bridge.settings import load
from bridge.upstream import make_upstream
from bridge.upstream.base import Upstream

CONFIG = Path(__file__).parent.parent.parent / "config"
KEYS = ("AIzaCanary0000000000000000000000000one", "AIzaCanary0000000000000000000000000two")
JSON = {"Content-Type": "application/json; charset=UTF-8"}

Body = dict[str, Any]


@dataclass
class Rig:
    name: str
    upstream: Upstream
    api: ScriptedGemini
    tokens: TokenServer
    wrapped: Callable[[Sequence[Body]], Reply]
    unwrapped: Callable[[Body], Body]

    def will_say(self, *chunks: Body) -> None:
        self.api.will_say(self.wrapped(chunks))

    @property
    def body(self) -> Body:
        """Return the last upstream request, unwrapped to Gemini's own format."""
        return self.unwrapped(self.api.asked[-1].body)


def array(chunks: Sequence[Body]) -> Reply:
    """Return a stream as Google sends it without `alt=sse`."""
    pieces = [(b",\r\n" if place else b"[") + orjson.dumps(chunk) for place, chunk in enumerate(chunks)]
    return Reply([*pieces, b"]"], headers=JSON)


def _plain(body: Body) -> Body:
    return body


def _of_project(body: Body) -> Body:
    return {name: value for name, value in body["request"].items() if name != "session_id"}


def _in_answers(chunks: Sequence[Body]) -> Reply:
    return Reply(sse(*({"response": each} if "error" not in each else each for each in chunks)))


#: The upstreams of other vendors, which do not write Gemini's JSON.
OTHERS = ("openai", "ollama")
WIRE: dict[str, tuple[Callable[[Sequence[Body]], Reply], Callable[[Body], Body]]] = {
    "gemini": (lambda chunks: Reply(sse(*chunks)), _plain),
    "vertex": (lambda chunks: Reply(sse(*chunks)), _plain),
    "code_assist": (_in_answers, _of_project),
    "sdk": (array, _plain),
    "openai": (other_forms.chat_reply, other_forms.gemini_from_chat),
    "ollama": (other_forms.ollama_reply, other_forms.gemini_from_ollama),
}


def environment(name: str, api: str, tokens: str, folder: Path) -> dict[str, str]:
    """Return the environment variables that select this upstream."""
    folder.mkdir(exist_ok=True)
    account, login = folder / "service_account.json", folder / "oauth_creds.json"
    account.write_bytes(orjson.dumps(service_account(tokens)))
    login.write_bytes(orjson.dumps(gemini_cli_login(tokens)))
    keys = {"GEMINI_API_KEY": ",".join(KEYS), "GOOGLE_GEMINI_BASE_URL": api}
    return {
        "gemini": {"BRIDGE_UPSTREAM__TRANSPORT": "gemini", **keys},
        "vertex": {
            "BRIDGE_UPSTREAM__TRANSPORT": "vertex",
            "BRIDGE_VERTEX__BASE_URL": api,
            "GOOGLE_CLOUD_LOCATION": "europe-west4",
            "GOOGLE_APPLICATION_CREDENTIALS": str(account),
        },
        "code_assist": {
            "USE_CCPA": "1",
            "BRIDGE_CODE_ASSIST__BASE_URL": api,
            "BRIDGE_CODE_ASSIST__CREDENTIALS": str(login),
            "GOOGLE_CLOUD_PROJECT": "canary-project",
        },
        "openai": {"BRIDGE_UPSTREAM__TRANSPORT": "openai", **keys, "GOOGLE_GEMINI_BASE_URL": f"{api}/v1"},
        "ollama": {"BRIDGE_UPSTREAM__TRANSPORT": "ollama", **keys},
        "sdk": {"BRIDGE_UPSTREAM__TRANSPORT": "sdk", "BRIDGE_UPSTREAM__STORE": "true", **keys},
    }[name]


def make(environ: dict[str, str]) -> Upstream:
    environ = {
        "BRIDGE_UPSTREAM__READ_TIMEOUT": "10",
        "BRIDGE_UPSTREAM__FIRST_BYTE_TIMEOUT": "10",
        "BRIDGE_SERVER__HEARTBEAT": "0.1",
        **environ,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Google's package warns about itself on its first import
        return make_upstream(load(CONFIG, environ))


def rig(name: str, api: ScriptedGemini, tokens: TokenServer, folder: Path, **more: str) -> Rig:
    environ = {**environment(name, api.address, tokens.address, folder), **more}
    return Rig(name, make(environ), api, tokens, *WIRE[name])


def read(upstream: Upstream, request: Any) -> list[Any]:
    """Return all chunks of an answer."""
    with closing(upstream.stream(request)) as stream:
        return [chunk for batch in stream for chunk in batch]
