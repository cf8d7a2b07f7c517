"""The other gateways, which `make bench-peers` installs into bench/installed/.

Each has the fastest settings that its documents recommend for production: no log, no database, no retries,
one worker.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.gateways import Gateway, Place
from bench.processes import Command
from bench.protocols import CHAT, MESSAGES, RESPONSES, chat_without_end_mark
from bench.scenarios import Scenario
from bench.script import Script

INSTALLED = Path(__file__).parent / "installed"
LITELLM_KEY = "sk-bench-5d0c8f3a7b214e96ad1f60c2"


def _litellm_models(upstream: str, scripts: set[Script]) -> list[dict[str, object]]:
    """One for each script: LiteLLM finds a model by its name, and each model can have its own address."""
    return [
        {
            "model_name": script.model,
            "litellm_params": {
                "model": "gemini/gemini-3.8-flash",
                "api_base": f"{upstream}/{script.model}/v1beta",
                "api_key": "bench-key-0000",
            },
        }
        for script in scripts
    ]


def _litellm(scripts: set[Script], place: Place) -> Command:
    settings = {
        "model_list": _litellm_models(place.upstream, scripts),
        "litellm_settings": {"telemetry": False, "drop_params": True, "request_timeout": 600},
        "general_settings": {
            "master_key": LITELLM_KEY,
            "disable_spend_logs": True,
            "disable_error_logs": True,
            "background_health_checks": False,
        },
        "router_settings": {"num_retries": 0},
    }
    file = place.folder / "litellm.yaml"
    file.write_text(json.dumps(settings))  # JSON is valid YAML
    program = str(INSTALLED / "litellm" / "bin" / "litellm")
    words = (
        program,
        "--config",
        str(file),
        "--host",
        "127.0.0.1",
        "--port",
        str(place.port),
        "--num_workers",
        "1",
    )
    quiet = {"LITELLM_LOG": "ERROR", "LITELLM_MODE": "PRODUCTION", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return Command(words, quiet)


def _portkey(place: Place) -> Command:
    program = str(INSTALLED / "portkey" / "node_modules" / ".bin" / "gateway")
    trusted = {"NODE_ENV": "production", "TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost"}
    return Command((program, "--headless", f"--port={place.port}"), trusted)


def _portkey_headers(place: Place) -> dict[str, str]:
    return {"x-portkey-provider": "google", "x-portkey-custom-host": place.upstream}


def versions() -> dict[str, str]:
    """The installed versions, read from the packages' own files."""
    found = [folder.stem for folder in INSTALLED.glob("litellm/lib/*/site-packages/litellm-*.dist-info")]
    package = INSTALLED / "portkey" / "node_modules" / "@portkey-ai" / "gateway" / "package.json"
    return {
        "litellm": found[0].removeprefix("litellm-"),
        "portkey": json.loads(package.read_text())["version"],
    }


def peers(scenarios: list[Scenario]) -> list[Gateway]:
    asked = {scenario.script for scenario in scenarios}
    scripts = asked | {replace(script, pause_ms=0) for script in asked} | {Script(2)}
    key = {"Authorization": f"Bearer {LITELLM_KEY}"}
    return [
        Gateway("litellm", (CHAT, RESPONSES, MESSAGES), partial(_litellm, scripts), lambda place: key),
        # With Gemini, Portkey supports Chat Completions only, and sends no end mark.
        Gateway("portkey", (replace(CHAT, streamed=chat_without_end_mark),), _portkey, _portkey_headers),
    ]
