"""The format of a client's key: a prefix for secret scanners, random letters and digits, a checksum.

A key is shown once and never stored; only its digest is. A plain SHA-256 is enough, because a key has too
many random bits to be guessed.
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
    """False if the text was never a key: it is truncated, mistyped, or something else."""
    body = text.removeprefix(PREFIX)
    drawn, checksum = body[:RANDOM_LENGTH], body[RANDOM_LENGTH:]
    return text.startswith(PREFIX) and len(drawn) == RANDOM_LENGTH and _checksum(drawn) == checksum


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def hint(secret: str) -> str:
    """The last letters. They tell one person's keys apart, and are part of the checksum, not of the
    secret."""
    return secret[-HINT_LENGTH:]


def _checksum(drawn: str) -> str:
    number, digits = zlib.crc32(drawn.encode("utf-8", "surrogatepass")), ""
    for _ in range(CHECKSUM_LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits
