from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from gunicorn_bridge import ROOT, clean_environment

import bridge.observe.metrics  # noqa: F401  import first: after gunicorn.conf.py it would write files
from bridge.doctor.finding import Installation
from bridge.settings import load

#: Variables that would change the route or the trusted certificates.
ELSEWHERE = ("proxy", "ca_bundle", "ssl_cert")

MakePatient = Callable[..., Installation]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = clean_environment()
    for name in list(os.environ):
        if name not in kept or any(word in name.lower() for word in ELSEWHERE):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")  # restored after the test
    monkeypatch.setattr("bridge.server.active_settings._in_force", None)  # a command is a separate process


@pytest.fixture
def installation(tmp_path: Path) -> MakePatient:
    """Make an installation with the delivered configuration and these variables."""

    def make(
        public_address: str | None = None, client_key: str | None = None, **environment: str
    ) -> Installation:
        state = {"BRIDGE_STATE_DIR": str(tmp_path / "state")}
        return Installation(load(ROOT / "config", state | environment), public_address, client_key)

    return make
