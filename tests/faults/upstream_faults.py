"""Behaviours of an evil upstream; the model name `gemini-NAME--anything` selects one."""

from __future__ import annotations

import time
import zlib

import orjson
from evil_gemini import END, HEAD, Behaviour, UpstreamCall, event, framed, refusal

TEN_MB = "0123456789" * 1_000_000
RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s"}
LONG_RETRY_INFO = {**RETRY_INFO, "retryDelay": "47.2s"}
OVERLOADED = refusal(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")
QUOTA = refusal(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", LONG_RETRY_INFO)
SHORT_QUOTA = refusal(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", RETRY_INFO)
SIGNATURE = refusal(400, "INVALID_ARGUMENT", "Corrupted thought signature.")
STATES = "The specified schema produces a constraint that has too many states for serving."
SCHEMA = refusal(400, "INVALID_ARGUMENT", STATES)
THINKING = refusal(400, "INVALID_ARGUMENT", "Thinking level is not supported for this model: thinking_level")
ERROR_BODY = orjson.dumps({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}})


def first_then_good(*behaviours: bytes) -> Behaviour:
    """Send each of these once, in order, and then a good answer."""

    def play(call: UpstreamCall) -> None:
        call.send(behaviours[call.number - 1] if call.number <= len(behaviours) else call.good)

    return play


def always(answer: bytes) -> Behaviour:
    return lambda call: call.send(answer)


def stall_before_head(call: UpstreamCall) -> None:
    call.stall()


def stall_in_head(call: UpstreamCall) -> None:
    call.send(HEAD[:20])
    call.stall()


def stall_after_head(call: UpstreamCall) -> None:
    call.send(HEAD)
    call.stall()


def stall_in_frame_size(call: UpstreamCall) -> None:
    call.send(HEAD, framed(call.text("Half ")), b"1")
    call.stall()


def stall_in_chunk(call: UpstreamCall) -> None:
    call.send(HEAD, framed(call.text("Half ")), b"400\r\ndata: {")
    call.stall()


def reset_first(call: UpstreamCall) -> None:
    if call.number == 1:
        call.reset()
    call.send(call.good)


def reset_in_stream(call: UpstreamCall) -> None:
    call.send(HEAD, framed(call.text("Half ")))
    time.sleep(0.5)  # a reset discards bytes that the bridge has not read yet
    call.reset()


def close_in_stream(call: UpstreamCall) -> None:
    call.send(HEAD, framed(call.text("Half ")))
    call.close()


def no_finish(call: UpstreamCall) -> None:
    call.send(HEAD, framed(call.text("Half ")), END)


def truncated_json(call: UpstreamCall) -> None:
    call.send(HEAD, framed(call.text("Half "), call.text("an answer")[:40]), END)


def half_a_character(call: UpstreamCall) -> None:
    cut = call.text("Half a character: é")
    call.send(HEAD, framed(call.text("Half "), cut[: cut.index("é".encode()) + 1]), END)


def error_in_stream(call: UpstreamCall) -> None:
    call.send(HEAD, framed(call.text("Half "), ERROR_BODY), END)


def drip(call: UpstreamCall) -> None:
    for at in range(len(call.good)):
        call.send(call.good[at : at + 1])


MEGABYTE = 1 << 20
PACKED_HEAD = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"


def packed(*pieces: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return b"".join(map(packer.compress, pieces)) + packer.flush()


def gzip_unasked(call: UpstreamCall) -> None:
    call.send(PACKED_HEAD, framed(packed(call.text("All "), call.text("is well.", "STOP"))), END)


def gzip_cut_short(call: UpstreamCall) -> None:
    call.send(PACKED_HEAD, framed(packed(call.text("Half "), call.text("an answer", "STOP"))[:-12]), END)


def gzip_bomb(call: UpstreamCall) -> None:
    """Send one gigabyte of compressed data."""
    call.send(PACKED_HEAD, framed(packed(call.text("Half "), b"data: ", *[b"a" * MEGABYTE] * 1024)), END)


def endless_event(call: UpstreamCall) -> None:
    call.send(HEAD, framed(call.text("Half "), b"data: "))
    while True:
        call.send(framed(b"a" * MEGABYTE))


def endless_comments(call: UpstreamCall) -> None:
    call.send(HEAD, framed(call.text("Half ")))
    while True:
        call.send(framed(b": still here\n\n"))
        time.sleep(0.05)


def endless_trailers(call: UpstreamCall) -> None:
    call.send(HEAD, framed(call.text("Half ")), b"0\r\n")
    while True:
        call.send(b"X-Trailer: and another\r\n" * 100)


def many_values(call: UpstreamCall) -> None:
    """Send 30 MB of JSON that would take 600 MB when parsed."""
    values = b",".join([b"{}"] * (10 * MEGABYTE))
    call.send(HEAD, framed(call.text("Half "), b"data: [", values, b"]\r\n\r\n"), END)


def never_ending(call: UpstreamCall) -> None:
    call.send(HEAD)
    while True:
        call.send(framed(call.text("and on ")))
        time.sleep(0.02)


def ten_megabytes(call: UpstreamCall) -> None:
    call.send(HEAD, framed(call.text(TEN_MB), call.text(".", "STOP")), END)


def slow_start(call: UpstreamCall) -> None:
    time.sleep(1.5)
    call.send(HEAD)
    time.sleep(1.5)
    call.send(call.good[len(HEAD) :])


def long_answer(call: UpstreamCall) -> None:
    """Send an answer of about three seconds."""
    call.send(HEAD)
    for number in range(30):
        call.send(framed(call.text(f"{number} ")))
        time.sleep(0.1)
    call.send(framed(call.text("done.", "STOP")), END)


def silent_with_half(call: UpstreamCall) -> None:
    call.send(HEAD, framed(call.text("Half ")))
    call.stall()


def flood(call: UpstreamCall) -> None:
    """Send more than the socket buffers hold, so that a client that does not read blocks the bridge."""
    call.send(HEAD)
    for _ in range(400):
        call.send(framed(call.text("x" * 100_000)))
    call.send(framed(call.text("done.", "STOP")), END)


THOUGHT = event({"text": "Hm.", "thought": True})
MALFORMED = HEAD + framed(THOUGHT, event(finish="MALFORMED_FUNCTION_CALL")) + END
EMPTY = HEAD + framed(event(finish="STOP")) + END
NOTHING = HEAD + END
THOUGHTS_ALONE = HEAD + framed(THOUGHT, event(finish="STOP")) + END
ERROR_AT_ONCE = HEAD + framed(b"data: " + ERROR_BODY + b"\r\n\r\n") + END
HTML = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"

BEHAVIOURS: dict[str, Behaviour] = {
    # faults that a retry fixes
    "overloaded-once": first_then_good(OVERLOADED),
    "overloaded-twice": first_then_good(OVERLOADED, OVERLOADED),
    "quota-once": first_then_good(SHORT_QUOTA),
    "reset-once": reset_first,
    "empty-once": first_then_good(EMPTY),
    "nothing-once": first_then_good(NOTHING),
    "thoughts-alone-once": first_then_good(THOUGHTS_ALONE),
    "malformed-once": first_then_good(MALFORMED),
    "error-body-once": first_then_good(ERROR_AT_ONCE),
    "html-once": first_then_good(HTML),
    "signature-once": first_then_good(SIGNATURE),
    "schema-once": first_then_good(SCHEMA),
    "thinking-once": first_then_good(THINKING),
    # slow but good answers
    "slow-start": slow_start,
    "drip": drip,
    "ten-megabytes": ten_megabytes,
    "gzip-unasked": gzip_unasked,
    "long": long_answer,
    # faults that no retry fixes
    "stall-before-head": stall_before_head,
    "stall-in-head": stall_in_head,
    "stall-after-head": stall_after_head,
    "stall-in-frame-size": stall_in_frame_size,
    "stall-in-chunk": stall_in_chunk,
    "reset-in-stream": reset_in_stream,
    "close-in-stream": close_in_stream,
    "no-finish": no_finish,
    "truncated-json": truncated_json,
    "half-a-character": half_a_character,
    "error-in-stream": error_in_stream,
    "never-ending": never_ending,
    "gzip-cut-short": gzip_cut_short,
    "endless-comments": endless_comments,
    "endless-trailers": endless_trailers,
    # data that would fill the memory
    "gzip-bomb": gzip_bomb,
    "endless-event": endless_event,
    "many-values": many_values,
    "overloaded": always(OVERLOADED),
    "quota": always(QUOTA),
    "empty": always(EMPTY),
    "malformed": always(MALFORMED),
    "signature": always(SIGNATURE),
    # for clients that disconnect or do not read
    "silent": silent_with_half,
    "flood": flood,
}
#: Behaviours that only Gemini has: events and refusals that other servers write in another form.
OF_GEMINI = frozenset(
    (
        *("empty-once", "empty", "thoughts-alone-once", "malformed-once", "malformed"),
        *("signature-once", "signature", "schema-once", "thinking-once"),
    )
)
