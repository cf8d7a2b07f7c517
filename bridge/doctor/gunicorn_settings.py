"""The settings that gunicorn would use, from gunicorn.conf.py and GUNICORN_CMD_ARGS."""

from __future__ import annotations

import io
import runpy
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from typing import Any

from gunicorn.config import Config
from gunicorn.workers.gthread import ThreadWorker

from bridge.settings import SettingsError
from bridge.settings.source import PROJECT

FILE = PROJECT / "gunicorn.conf.py"

_STDERR_LOCK = threading.Lock()  #: standard error can be redirected only once at a time


@dataclass(frozen=True, slots=True)
class GunicornSettings:
    bind: tuple[str, ...]
    threaded: bool  #: threaded workers can stream longer than gunicorn's timeout
    workers: int
    threads: int
    timeout: int
    max_requests: int
    preload_app: bool


def gunicorn_settings() -> GunicornSettings:
    config = Config(prog="GUNICORN_CMD_ARGS")
    with _exit_translated():
        written = {**runpy.run_path(str(FILE)), **_overriding(config)}
    for name in written.keys() & config.settings.keys():
        _set(config, name, written[name])
    return GunicornSettings(
        bind=tuple(config.bind),
        threaded=issubclass(config.worker_class, ThreadWorker),
        workers=config.workers,
        threads=config.threads,
        timeout=config.timeout,
        max_requests=config.max_requests,
        preload_app=config.preload_app,
    )


@contextmanager
def _exit_translated() -> Iterator[None]:
    """Turn an exit with a message on standard error into a SettingsError with that message."""
    printed = io.StringIO()
    try:
        with _STDERR_LOCK, redirect_stderr(printed):
            yield
    except SystemExit:
        *_, last = printed.getvalue().strip().rpartition("\n")
        raise SettingsError(
            last.removeprefix("gemini-bridge: ") or f"{FILE.name} exits without a message"
        ) from None


def _overriding(config: Config) -> dict[str, Any]:
    arguments = config.get_cmd_args_from_env()
    parsed = vars(config.parser().parse_args(arguments)) if arguments else {}
    return {name: value for name, value in parsed.items() if value is not None}


def _set(config: Config, name: str, value: Any) -> None:
    try:
        config.set(name, value)
    except (TypeError, ValueError, AttributeError) as error:
        raise SettingsError(f"{FILE.name}: {name} is invalid: {error}") from None
