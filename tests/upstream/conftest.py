from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scripted_gemini import ScriptedGemini
from scripted_tokens import TokenServer
from upstream_rigs import Rig, rig


@pytest.fixture(scope="session")
def _api() -> Iterator[ScriptedGemini]:
    scripted = ScriptedGemini()
    yield scripted
    scripted.close()


@pytest.fixture(scope="session")
def _tokens() -> Iterator[TokenServer]:
    server = TokenServer()
    yield server
    server.close()


@pytest.fixture
def api(_api: ScriptedGemini, monkeypatch: pytest.MonkeyPatch) -> ScriptedGemini:
    """The scripted Google API for the upstream under test."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    _api.forget()
    return _api


@pytest.fixture
def tokens(_tokens: TokenServer) -> TokenServer:
    _tokens.forget()
    return _tokens


@pytest.fixture
def set_up(api: ScriptedGemini, tokens: TokenServer, tmp_path: Path) -> Callable[..., Rig]:
    """Make an upstream by name from its settings."""
    return lambda name, **more: rig(name, api, tokens, tmp_path / "config", **more)
