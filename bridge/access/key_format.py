"""What a client's key looks like: a prefix that scanners can find, random letters and digits, a checksum.

The key itself is shown once and kept nowhere; what is kept is its digest. A plain SHA-256 is enough, since
there are far too many keys to guess one.
"""

from __future__ import annotations

import hashlib
import secrets
import string
import zlib

PREFIX = "gbk_"
ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
RANDOM_LENGTH = 32  #: about 190 bits
CHECKSUM_LENGTH = 6  #: holds 32 bits
HINT_LENGTH = 4


def new_secret() -> str:
    drawn = "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_LENGTH))
    return PREFIX + drawn + _checksum(drawn)


def well_formed(text: str) -> bool:
    """False for what was never a key: cut short, misspelt, or something else altogether."""
    body = text.removeprefix(PREFIX)
    drawn, checksum = body[:RANDOM_LENGTH], body[RANDOM_LENGTH:]
    return text.startswith(PREFIX) and len(drawn) == RANDOM_LENGTH and _checksum(drawn) == checksum


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def hint(secret: str) -> str:
    """Enough to tell a person's keys apart, and of no use to anybody else: the end is checksum."""
    return secret[-HINT_LENGTH:]


def _checksum(drawn: str) -> str:
    number, digits = zlib.crc32(drawn.encode("utf-8", "surrogatepass")), ""
    for _ in range(CHECKSUM_LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits
