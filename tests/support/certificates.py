"""Self-made certificates, like those of a company's intercepting proxy."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@dataclass(frozen=True)
class Certificate:
    certificate: Path
    key: Path


def make_certificate(folder: Path, *names: str, organisation: str = "Example Company") -> Certificate:
    """Make a self-signed certificate for these names."""
    made = Certificate(folder / f"{names[0]}.pem", folder / f"{names[0]}.key")
    kinds = (
        f"IP:{name}" if ":" in name or name.replace(".", "").isdigit() else f"DNS:{name}" for name in names
    )
    command = f"""
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2
        -subj '/O={organisation}/CN={names[0]}' -addext subjectAltName={",".join(kinds)}
        -out '{made.certificate}' -keyout '{made.key}'
    """
    subprocess.run(shlex.split(command), check=True, capture_output=True, timeout=30)
    return made


def make_signed_certificate(folder: Path, *names: str) -> tuple[Certificate, Path]:
    """Make a certificate for these names, signed by a new CA, and return it with the CA's certificate."""
    authority = make_certificate(folder, "Test-CA")
    made = Certificate(folder / "signed.pem", folder / "signed.key")
    kinds = ",".join(f"IP:{name}" if name.replace(".", "").isdigit() else f"DNS:{name}" for name in names)
    command = f"""
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=server
        -CA '{authority.certificate}' -CAkey '{authority.key}' -addext subjectAltName={kinds}
        -addext basicConstraints=critical,CA:FALSE -out '{made.certificate}' -keyout '{made.key}'
    """
    subprocess.run(shlex.split(command), check=True, capture_output=True, timeout=30)
    return made, authority.certificate
