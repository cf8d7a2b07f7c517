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
TWO_BRIDGES = ROOT / "deploy" / "nginx-two-bridges.conf"
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

ALTERNATING = """
upstream bridges {{ {servers} }}
server {{
    listen 127.0.0.1:{port};
    access_log {folder}/access.log;
    client_max_body_size 64m;
    location / {{
        proxy_pass http://bridges;
        proxy_http_version 1.1;
        proxy_buffering off;
        proxy_set_header X-Forwarded-For $remote_addr;
    }}
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


def _example(bridge_addresses: tuple[str, ...]) -> str:
    """The example for one bridge or for two, with the addresses of the bridges."""
    places = [address.removeprefix("http://") for address in bridge_addresses]
    site = EXAMPLE.read_text()
    if len(places) == 1:
        return _replaced(site, (r"127\.0\.0\.1:41242", places[0]))
    site = _replaced(site, (r"(?ms)^upstream gemini_bridge \{.*?^\}\n", ""))
    names = ((rf"BRIDGE-{number}:41242", place) for number, place in enumerate(places, start=1))
    return _replaced(TWO_BRIDGES.read_text(), *names) + site


def _replaced(site: str, *changes: tuple[str, str]) -> str:
    for pattern, place in changes:
        site, changed = re.subn(pattern, place, site)
        assert changed, pattern
    return site


def written(folder: Path, port: int, *bridge_addresses: str) -> list[str]:
    """Write the example with changed paths and ports, and return the command that runs nginx with it."""
    made = make_certificate(folder, "localhost", "127.0.0.1")
    site = _replaced(
        _example(bridge_addresses),
        (r"/etc/ssl/SERVER-NAME\.pem", str(made.certificate)),
        (r"/etc/ssl/SERVER-NAME\.key", str(made.key)),
        (r"SERVER-NAME", "localhost"),
        (r"/var/log/nginx/", f"{folder}/"),
        (r"listen 443", f"listen 127.0.0.1:{port}"),
        (r"    listen \[::\]:443.*\n", ""),  # a machine may have no IPv6
    )
    return _command(folder, site)


def _command(folder: Path, site: str) -> list[str]:
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "site.conf").write_text(site)
    (folder / "main.conf").write_text(MAIN.format(user=user, folder=folder))
    return [str(NGINX), "-c", str(folder / "main.conf"), "-e", str(folder / "main.error.log")]


@contextmanager
def nginx_proxy(folder: Path, *bridge_addresses: str) -> Iterator[NginxProxy]:
    port = free_port()
    with _running(written(folder, port, *bridge_addresses), port):
        yield NginxProxy(f"https://localhost:{port}", folder, folder / "localhost.pem")


@contextmanager
def alternating_proxy(folder: Path, *bridge_addresses: str) -> Iterator[str]:
    """The address of an nginx that sends each request to the next bridge, unlike the delivered example."""
    port = free_port()
    servers = " ".join(f"server {address.removeprefix('http://')};" for address in bridge_addresses)
    site = ALTERNATING.format(servers=servers, port=port, folder=folder)
    with _running(_command(folder, site), port):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(command)
    try:
        assert eventually(lambda: process.poll() is not None or _listens(port)), "nginx does not listen"
        assert process.poll() is None, "nginx did not start"
        yield
    finally:
        process.terminate()
        process.wait(20)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
