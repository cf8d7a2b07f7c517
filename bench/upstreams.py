"""`--upstreams`: the bridge with one upstream, and with three of which two share Gemini's models."""

from __future__ import annotations

import shutil
from functools import partial

from bench.gateways import BRIDGE, Gateway, Place, bridge_command
from bench.processes import ROOT, Command

ONE, THREE = "one upstream", "three upstreams"

_ROWS = """
[[upstream]]
name = "first"
kind = "gemini"
api_key = "env:GEMINI_API_KEY"
base_url = "{address}"
models = ["gemini-*"]

[[upstream]]
name = "second"
kind = "gemini"
api_key = "env:GEMINI_API_KEY"
base_url = "{address}"
models = ["gemini-*"]

[[upstream]]
name = "cellar"
kind = "openai"
dialect = "vllm"
base_url = "{address}/v1"
models = ["qwen*"]
"""


def _several(place: Place) -> Command:
    config = place.folder / "config"
    shutil.copytree(ROOT / "config", config, ignore=shutil.ignore_patterns("local.toml"), dirs_exist_ok=True)
    (config / "upstreams.toml").write_text(_ROWS.format(address=place.upstream))
    return bridge_command(place, {"BRIDGE_CONFIG_DIR": str(config)})


def bridges_with_upstreams() -> list[Gateway]:
    return [
        Gateway(ONE, BRIDGE.protocols, partial(bridge_command, more={})),
        Gateway(THREE, BRIDGE.protocols, _several),
    ]
