"""The kernel takes seconds as they are meant: none of ours means for ever, and its 'none' does."""

from __future__ import annotations

import math
import socket

import pytest

from bridge.socket_timeouts import TIMEVAL_SIZE, seconds_from_timeval, timeval


@pytest.mark.parametrize("seconds", [0.25, 1, 1.5, 59.5, 3600])
@pytest.mark.parametrize("option", [socket.SO_RCVTIMEO, socket.SO_SNDTIMEO])
def test_the_kernel_gives_back_what_it_was_given(seconds: float, option: int) -> None:
    with socket.socket() as each:
        each.setsockopt(socket.SOL_SOCKET, option, timeval(seconds))
        told = seconds_from_timeval(each.getsockopt(socket.SOL_SOCKET, option, TIMEVAL_SIZE))
    assert told == pytest.approx(seconds, abs=0.02)  # it counts in ticks of its own


def test_no_time_is_a_short_one_and_not_for_ever() -> None:
    with socket.socket() as each:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval(0))
        assert (
            seconds_from_timeval(each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, TIMEVAL_SIZE)) < 0.1
        )


def test_a_socket_that_was_told_nothing_waits_for_ever() -> None:
    with socket.socket() as each:
        assert (
            seconds_from_timeval(each.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, TIMEVAL_SIZE))
            == math.inf
        )
