"""A real nginx in front of a bridge, configured by the delivered example."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from certificates import make_certificate
from gunicorn_bridge import ROOT, free_port
from waiting import eventually

EXAMPLE = ROOT / "deploy" / "nginx.conf"
#: nginx is often not in an ordinary user's PATH.
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")

MAIN = """
{user}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/main.error.log warn;
events {{}}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


@dataclass(frozen=True)
class NginxProxy:
    address: str
    folder: Path
    certificate: Path

    def logs(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def logged(self, text: str) -> bool:
        """Wait for this text in the logs: nginx logs a request after its client has the response."""
        return eventually(lambda: text in self.logs())


def written(folder: Path, port: int, bridge_address: str) -> list[str]:
    """Write the example with changed paths and ports, and return the command that runs nginx with it."""
    made = make_certificate(folder, "localhost", "127.0.0.1")
    site = EXAMPLE.read_text()
    for pattern, place in (
        (r"/etc/ssl/SERVER-NAME\.pem", str(made.certificate)),
        (r"/etc/ssl/SERVER-NAME\.key", str(made.key)),
        (r"SERVER-NAME", "localhost"),
        (r"/var/log/nginx/", f"{folder}/"),
        (r"127\.0\.0\.1:41242", bridge_address.removeprefix("http://")),
        (r"listen 443", f"listen 127.0.0.1:{port}"),
        (r"    listen \[::\]:443.*\n", ""),  # a machine may have no IPv6
    ):
        site, changed = re.subn(pattern, place, site)
        assert changed, pattern
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "site.conf").write_text(site)
    (folder / "main.conf").write_text(MAIN.format(user=user, folder=folder))
    return [str(NGINX), "-c", str(folder / "main.conf"), "-e", str(folder / "main.error.log")]


@contextmanager
def nginx_proxy(folder: Path, bridge_address: str) -> Iterator[NginxProxy]:
    port = free_port()
    command = written(folder, port, bridge_address)
    process = subprocess.Popen(command)
    try:
        assert eventually(lambda: process.poll() is not None or _listens(port)), "nginx does not listen"
        assert process.poll() is None, "nginx did not start"
        yield NginxProxy(f"https://localhost:{port}", folder, folder / "localhost.pem")
    finally:
        process.terminate()
        process.wait(20)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
