from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_gemini import ScriptedGemini

from bridge.settings import UpstreamRow, load
from bridge.upstream import make_upstream
from bridge.upstream.base import Upstream

CONFIG = Path(__file__).parent.parent.parent.parent / "config"
Make = Callable[..., Upstream]


@pytest.fixture
def make(api: ScriptedGemini) -> Make:
    """Make an upstream of the kind `openai` or `ollama` whose server is the scripted one."""

    def made(kind: str = "openai", **fields: Any) -> Upstream:
        row = UpstreamRow(
            **{
                "name": "qwen",
                "kind": kind,
                "base_url": f"{api.address}/v1" if kind == "openai" else api.address,
                "read_timeout": 5.0,
                "first_byte_timeout": 5.0,
                **fields,
            }
        )
        environ = {"BRIDGE_SERVER__HEARTBEAT": "0.1"}
        return make_upstream(load(CONFIG, environ), None, row)

    return made
