"""The address of a PostgreSQL database: its rule, its secrets, and the form in which it may be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from bridge.settings.value import Secret

SCHEMES = ("postgresql", "postgres")
#: Parameters of the query that hold secrets, as libpq names them.
SECRET_PARAMETERS = ("password", "sslpassword")

#: The part of an address between the user and the host.
_PASSWORD = re.compile(r"(?<=://)([^/?#@:]*):([^/?#@]*)@")


@dataclass(frozen=True, slots=True)
class DatabaseUrl(Secret):
    description: str = ": an address such as postgresql://user:password@host:5432/database"

    def accepts(self, value: Any) -> bool:
        parts = urlsplit(value)
        plain = Secret.accepts(self, value) and not parts.fragment
        return plain and parts.scheme in SCHEMES and bool(parts.netloc or parts.query)

    def shown(self, value: str) -> str:
        return shown_url(value)


def shown_url(url: str) -> str:
    """The address without its password and without its query, which may hold secrets too."""
    return _PASSWORD.sub(r"\1:••••@", url.partition("?")[0])


def secrets_in(url: str) -> tuple[str, ...]:
    """All texts of the address that no log and no message may contain."""
    if not url:
        return ()
    found = _PASSWORD.search(url)
    passwords = [found[2]] if found else []
    passwords += [value for name, value in parse_qsl(urlsplit(url).query) if name in SECRET_PARAMETERS]
    return tuple(filter(None, dict.fromkeys((url, *passwords, *map(unquote, passwords)))))
