from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from gunicorn_bridge import ROOT, clean_environment

import bridge.observe.metrics  # noqa: F401  before a test runs gunicorn.conf.py, which would make it write files
from bridge.doctor.finding import Patient
from bridge.settings import load

#: What would show the way to somewhere else, or change who is trusted.
ELSEWHERE = ("proxy", "ca_bundle", "ssl_cert")

MakePatient = Callable[..., Patient]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = clean_environment()
    for name in list(os.environ):
        if name not in kept or any(word in name.lower() for word in ELSEWHERE):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")  # so that it is as it was afterwards, whatever happens
    monkeypatch.setattr("bridge.server.active_settings._in_force", None)  # a command is a process of its own


@pytest.fixture
def patient(tmp_path: Path) -> MakePatient:
    """A patient by the shipped configuration, and these variables."""

    def make(front_door: str | None = None, client_key: str | None = None, **environment: str) -> Patient:
        state = {"BRIDGE_STATE_DIR": str(tmp_path / "state")}
        return Patient(load(ROOT / "config", state | environment), front_door, client_key)

    return make
