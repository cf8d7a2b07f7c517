"""The CA certificates that every TLS connection of the bridge trusts, whichever library opens it.

Left alone, `requests` reads other variables than OpenSSL, and trusts another set if none is set. The order
begins with the variables of `requests`, because Google's libraries read them on their own.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import certifi

VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
#: What a message tells an administrator to set.
ADVISED = "SSL_CERT_FILE"
SYSTEM, SHIPPED = "system", "certifi"

#: The names by which OpenSSL finds certificates in a folder: a hash of the subject, and a number.
_HASHED = "[0-9a-f]" * 8 + ".[0-9]*"


class CaBundle(NamedTuple):
    location: str  #: a file, or a folder with hashed names
    origin: str  #: the variable that names it, or `system` or `certifi`

    @property
    def problem(self) -> str:
        """Empty if it can be used."""
        place = Path(self.location)
        try:
            if place.is_dir():
                return "" if any(place.glob(_HASHED)) else _NOT_HASHED.format(place=place)
            usable = b"BEGIN CERTIFICATE" in place.read_bytes()
        except OSError as error:
            return f"cannot be read ({error.strerror})" if place.exists() else "does not exist"
        return "" if usable else "has no certificate"


_NOT_HASHED = "has no certificate that OpenSSL finds: run openssl rehash {place}"


def ca_bundle(environ: Mapping[str, str] = os.environ) -> CaBundle:
    for name in VARIABLES:
        if location := environ.get(name, "").strip():
            return CaBundle(location, name)
    paths = ssl.get_default_verify_paths()
    for location in (paths.openssl_cafile, paths.openssl_capath):
        if not (found := CaBundle(location, SYSTEM)).problem:
            return found
    return CaBundle(certifi.where(), SHIPPED)


def tls_context() -> ssl.SSLContext:
    """For a client of the standard library. Raises OSError that names the variable."""
    bundle = ca_bundle()
    if problem := bundle.problem:
        raise OSError(f"the CA bundle {bundle.location} of {bundle.origin} {problem}")
    if Path(bundle.location).is_dir():
        return ssl.create_default_context(capath=bundle.location)
    return ssl.create_default_context(cafile=bundle.location)
