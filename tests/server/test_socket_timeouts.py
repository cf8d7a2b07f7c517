"""Socket timeouts in the kernel: a zero timeout is short, although the kernel's zero means infinite."""

from __future__ import annotations

import math
import socket

import pytest

from bridge.socket_timeouts import TIMEVAL_SIZE, seconds_from_timeval, timeval


@pytest.mark.parametrize("seconds", [0.25, 1, 1.5, 59.5, 3600])
@pytest.mark.parametrize("option", [socket.SO_RCVTIMEO, socket.SO_SNDTIMEO])
def test_the_socket_timeout_is_read_back_as_set(seconds: float, option: int) -> None:
    with socket.socket() as each:
        each.setsockopt(socket.SOL_SOCKET, option, timeval(seconds))
        told = seconds_from_timeval(each.getsockopt(socket.SOL_SOCKET, option, TIMEVAL_SIZE))
    assert told == pytest.approx(seconds, abs=0.02)  # the kernel rounds to its own ticks


def test_a_zero_timeout_is_short_and_not_infinite() -> None:
    with socket.socket() as each:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval(0))
        assert (
            seconds_from_timeval(each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, TIMEVAL_SIZE)) < 0.1
        )


def test_a_socket_without_a_timeout_waits_forever() -> None:
    with socket.socket() as each:
        assert (
            seconds_from_timeval(each.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, TIMEVAL_SIZE))
            == math.inf
        )
