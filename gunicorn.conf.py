"""gunicorn's settings for the bridge, derived from the bridge's own settings."""

import gc
import logging
import sys
from functools import partial
from pathlib import Path

from bridge.observe import metrics_folder
from bridge.observe.logs import configuration
from bridge.server.active_settings import load_active_settings, log_notices
from bridge.server.cpu_affinity import choose_core, pin_to_core
from bridge.server.interrupt import stop_on_interrupt
from bridge.server.welcome import welcome
from bridge.settings import AUTO, SettingsError
from bridge.state.errors import StorageError
from bridge.state.folder_lock import share_folder

try:
    _in_force = load_active_settings()
except SettingsError as error:
    print(f"gemini-bridge: {error}", file=sys.stderr)
    sys.exit(2)

_settings = _in_force.settings
_server = _settings.server
metrics_folder.choose_folder(_server.port, _settings.state.dir)  # before a worker imports the metrics

_host = f"[{_server.host}]" if ":" in _server.host else _server.host
bind = f"{_host}:{_server.port}"
worker_class = "bridge.server.worker.Worker"  # a sync worker would be killed during a long stream
workers = _server.workers  # about one per core: conversion needs CPU, and a process runs Python on one core
threads = _server.threads  # one for each running answer; the bridge refuses more requests
worker_connections = _server.threads + 1000  # idle connections of clients and proxies cost little
backlog = 512  # connections that wait in the kernel while all workers are busy
timeout = 120  # applies to a worker's main loop only; streams may last longer
graceful_timeout = _server.graceful_timeout  # running answers get this long to finish at a stop or reload
keepalive = 75  # longer than a proxy keeps idle connections: the proxy closes them first
max_requests = 0  # a worker that retires accepts nothing until its streams end
preload_app = False  # connections and locks break in a child process
reuse_port = False  # a second bridge on the same port must fail
control_socket_disable = True  # the bridge does not use it
accesslog = None  # the bridge writes its own line when a stream has ended
logger_class = "bridge.observe.gunicorn_log.QuietLogger"  # else gunicorn would still format its line
_terminal = _settings.log.format == "text" or (_settings.log.format == AUTO and sys.stderr.isatty())
logconfig_dict = configuration(
    _settings.log.level, _settings.log.debug, _settings.secrets, _server.node_name, terminal=_terminal
)
if Path("/dev/shm").is_dir():
    worker_tmp_dir = "/dev/shm"  # gunicorn's heartbeat file must not wait for a disk


def on_starting(server):
    try:
        share_folder(_settings.state.dir)  # workers inherit the lock
    except StorageError as error:
        print(f"gemini-bridge: {error}", file=sys.stderr)
        sys.exit(2)
    server.handle_int = partial(stop_on_interrupt, server)


def pre_fork(server, worker):
    if _server.own_core:
        by_age = sorted(server.WORKERS.values(), key=lambda each: each.age)
        worker.core = choose_core([each.core for each in by_age], staying=server.num_workers - 1)


def post_fork(server, worker):
    gc.disable()  # a worker keeps what it loads; collecting garbage takes a tenth of its start
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False  # no log line shows them
    metrics_folder.take_room()
    pin_to_core(worker.core)


def child_exit(server, worker):
    worker.siblings.unregister(worker.number)
    metrics_folder.forget_worker(worker.pid)


def on_exit(server):
    metrics_folder.remove()


def when_ready(server):
    metrics_folder.wipe()  # a second start by mistake has failed before this point
    if not _terminal:
        server.log.info("access: %s", _in_force.access)
    log_notices()
    print(welcome(_in_force, _host), file=sys.stderr, flush=True)


def on_reload(server):
    log_notices()


def post_worker_init(worker):
    gc.freeze()  # all objects so far stay: the collector can ignore them
    gc.enable()
    # Our threads release the interpreter's lock often by themselves. With the default interval of 5 ms, the
    # threads that wait for the lock would wake up too often for nothing when many streams run.
    sys.setswitchinterval(0.02)
