"""How gunicorn runs the bridge, by the same settings as the application: the two cannot drift apart."""

import gc
import logging
import sys
from pathlib import Path

from bridge.observe import metrics_folder
from bridge.observe.logs import configuration
from bridge.server.active_settings import load_active_settings, log_notices
from bridge.server.cpu_affinity import choose_core, pin_to_core
from bridge.settings import SettingsError

try:
    _in_force = load_active_settings()
except SettingsError as error:
    print(f"gemini-bridge: {error}", file=sys.stderr)
    sys.exit(2)

_settings = _in_force.settings
_server = _settings.server
metrics_folder.choose_folder(_server.port, _settings.state.dir)  # before a worker imports what counts into it

_host = f"[{_server.host}]" if ":" in _server.host else _server.host
bind = f"{_host}:{_server.port}"
worker_class = "bridge.server.worker.Worker"  # threads, since a sync worker would be killed in a long stream
workers = _server.workers  # about one for each core: conversion is CPU work under one lock per process
threads = _server.threads  # one for each live answer; the bridge itself refuses what is too much
worker_connections = _server.threads + 1000  # idle ones kept open by clients and proxies cost little
backlog = 512  # what waits to be accepted while all workers are busy for a moment
timeout = 120  # watches a worker's main loop only; streams may last longer
graceful_timeout = _server.graceful_timeout  # a stop or reload lets running answers finish for this long
keepalive = 75  # longer than a front proxy keeps idle connections, so that it closes them and not we
max_requests = 0  # a worker that retires takes nothing new until its streams end: an outage, not hygiene
preload_app = False  # connections and locks made before a fork break in the children
reuse_port = False  # a port that is taken must be an error, not a second bridge beside the first
control_socket_disable = True  # nobody asked for another door
accesslog = None  # the bridge writes its own line, when a stream has ended
logger_class = "bridge.observe.gunicorn_log.QuietLogger"  # or that line would be made and thrown away
logconfig_dict = configuration(_settings.log.level, _settings.log.debug, _settings.secrets)
if Path("/dev/shm").is_dir():
    worker_tmp_dir = "/dev/shm"  # the heartbeat file must not wait for a disk

_WELCOME = """
Gemini Bridge on http://{host}:{port}  ({upstream})
Access: {access}
Try it:
  curl -N http://{host}:{port}/v1/chat/completions -H 'content-type: application/json' \\
    -d '{{"model": "gpt-5", "stream": true, "messages": [{{"role": "user", "content": "Who are you?"}}]}}'
Connect your tools: open the address in a browser, or run gemini-bridge connect
"""

_OFFLINE = "no GEMINI_API_KEY is set: serving the embedded offline demo model"


def pre_fork(server, worker):
    if _server.own_core:
        by_age = sorted(server.WORKERS.values(), key=lambda each: each.age)
        worker.core = choose_core([each.core for each in by_age], staying=server.num_workers - 1)


def post_fork(server, worker):
    gc.disable()  # what a worker loads stays; to look for garbage meanwhile takes a tenth of its start
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False  # no line tells of them
    metrics_folder.take_room()
    pin_to_core(worker.core)


def child_exit(server, worker):
    worker.siblings.unregister(worker.number)
    metrics_folder.forget_worker(worker.pid)


def on_exit(server):
    metrics_folder.remove()


def when_ready(server):
    metrics_folder.wipe()  # not sooner: a second start by mistake ends when it finds the port taken
    upstream = f"upstream: {_in_force.home}" if _in_force.home else _OFFLINE
    host = "127.0.0.1" if _server.host in ("0.0.0.0", "::") else _host
    welcome = _WELCOME.format(host=host, port=_server.port, upstream=upstream, access=_in_force.access)
    print(welcome, file=sys.stderr, flush=True)
    server.log.info("access: %s", _in_force.access)
    log_notices()


def on_reload(server):
    log_notices()


def post_worker_init(worker):
    gc.freeze()  # what was made until now stays for good: the collector need never look at it
    gc.enable()
    # Our threads let go of the interpreter soon, by themselves. With many streams at once those that wait for
    # it would wake up every 5 ms, only to wait again.
    sys.setswitchinterval(0.02)
