"""Seconds to and from `struct timeval`, the format of the SO_RCVTIMEO and SO_SNDTIMEO socket options."""

from __future__ import annotations

import math
import struct

_TIMEVAL = struct.Struct("ll")
TIMEVAL_SIZE = _TIMEVAL.size


def timeval(seconds: float) -> bytes:
    micros = max(1, int(seconds * 1e6))  # the kernel reads 0 as "no timeout"
    return _TIMEVAL.pack(*divmod(micros, 1_000_000))


def seconds_from_timeval(value: bytes) -> float:
    seconds, micros = _TIMEVAL.unpack(value)
    return (seconds + micros / 1e6) or math.inf
