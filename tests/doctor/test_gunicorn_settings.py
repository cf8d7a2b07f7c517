"""Reading gunicorn's configuration file returns its values and does not change the process."""

from __future__ import annotations

import gc
import logging

import pytest

from bridge.doctor.gunicorn_settings import gunicorn_settings


@pytest.mark.parametrize("collecting", [True, False])
def test_loading_gunicorn_settings_does_not_change_the_garbage_collector(collecting: bool) -> None:
    (gc.enable if collecting else gc.disable)()
    try:
        assert gunicorn_settings().threaded
        assert gc.isenabled() is collecting
    finally:
        gc.enable()


def test_loading_gunicorn_settings_keeps_thread_ids_in_the_log() -> None:
    gunicorn_settings()
    assert logging.makeLogRecord({}).thread is not None
