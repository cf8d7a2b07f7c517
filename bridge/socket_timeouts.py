"""Seconds as the kernel takes them in a socket's options, and gives them back."""

from __future__ import annotations

import math
import struct

_TIMEVAL = struct.Struct("ll")
SIZE = _TIMEVAL.size


def timeval(seconds: float) -> bytes:
    micros = max(1, int(seconds * 1e6))  # to the kernel, none at all means for ever
    return _TIMEVAL.pack(*divmod(micros, 1_000_000))


def seconds_in(value: bytes) -> float:
    seconds, micros = _TIMEVAL.unpack(value)
    return (seconds + micros / 1e6) or math.inf
