"""Reading gunicorn's file says what it holds, and changes nothing in whoever reads it."""

from __future__ import annotations

import gc
import logging

import pytest

from bridge.doctor.gunicorn_settings import gunicorn_settings


@pytest.mark.parametrize("collecting", [True, False])
def test_the_garbage_collector_stays_as_it_was(collecting: bool) -> None:
    (gc.enable if collecting else gc.disable)()
    try:
        assert gunicorn_settings().threaded
        assert gc.isenabled() is collecting
    finally:
        gc.enable()


def test_the_log_still_knows_of_threads() -> None:
    gunicorn_settings()
    assert logging.makeLogRecord({}).thread is not None
