"""What an evil Gemini does, by the name of the model it is asked for: `gemini-NAME--anything`."""

from __future__ import annotations

import time
import zlib

import orjson
from evil_gemini import END, GOOD, HEAD, Deed, Visit, event, framed, refusal, text

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


def first_then_good(*deeds: bytes) -> Deed:
    """Each in turn, once, and then a good answer."""

    def play(visit: Visit) -> None:
        visit.say(deeds[visit.number - 1] if visit.number <= len(deeds) else GOOD)

    return play


def always(answer: bytes) -> Deed:
    return lambda visit: visit.say(answer)


def stall_before_head(visit: Visit) -> None:
    visit.stall()


def stall_in_head(visit: Visit) -> None:
    visit.say(HEAD[:20])
    visit.stall()


def stall_after_head(visit: Visit) -> None:
    visit.say(HEAD)
    visit.stall()


def stall_in_frame_size(visit: Visit) -> None:
    visit.say(HEAD, framed(text("Half ")), b"1")
    visit.stall()


def stall_in_chunk(visit: Visit) -> None:
    visit.say(HEAD, framed(text("Half ")), b"400\r\ndata: {")
    visit.stall()


def reset_first(visit: Visit) -> None:
    if visit.number == 1:
        visit.reset()
    visit.say(GOOD)


def reset_in_stream(visit: Visit) -> None:
    visit.say(HEAD, framed(text("Half ")))
    time.sleep(0.5)  # a reset takes along what was not read by then
    visit.reset()


def close_in_stream(visit: Visit) -> None:
    visit.say(HEAD, framed(text("Half ")))
    visit.hang_up()


def no_finish(visit: Visit) -> None:
    visit.say(HEAD, framed(text("Half ")), END)


def truncated_json(visit: Visit) -> None:
    visit.say(HEAD, framed(text("Half "), text("an answer")[:40]), END)


def half_a_character(visit: Visit) -> None:
    cut = text("Half a character: é")
    visit.say(HEAD, framed(text("Half "), cut[: cut.index("é".encode()) + 1]), END)


def error_in_stream(visit: Visit) -> None:
    visit.say(HEAD, framed(text("Half "), ERROR_BODY), END)


def drip(visit: Visit) -> None:
    for at in range(len(GOOD)):
        visit.say(GOOD[at : at + 1])


MEGABYTE = 1 << 20
PACKED_HEAD = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"


def packed(*pieces: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return b"".join(map(packer.compress, pieces)) + packer.flush()


def gzip_unasked(visit: Visit) -> None:
    visit.say(PACKED_HEAD, framed(packed(text("All "), text("is well.", "STOP"))), END)


def gzip_cut_short(visit: Visit) -> None:
    visit.say(PACKED_HEAD, framed(packed(text("Half "), text("an answer", "STOP"))[:-12]), END)


def gzip_bomb(visit: Visit) -> None:
    """A gigabyte in one."""
    visit.say(PACKED_HEAD, framed(packed(text("Half "), b"data: ", *[b"a" * MEGABYTE] * 1024)), END)


def endless_event(visit: Visit) -> None:
    visit.say(HEAD, framed(text("Half "), b"data: "))
    while True:
        visit.say(framed(b"a" * MEGABYTE))


def endless_comments(visit: Visit) -> None:
    visit.say(HEAD, framed(text("Half ")))
    while True:
        visit.say(framed(b": still here\n\n"))
        time.sleep(0.05)


def endless_trailers(visit: Visit) -> None:
    visit.say(HEAD, framed(text("Half ")), b"0\r\n")
    while True:
        visit.say(b"X-Trailer: and another\r\n" * 100)


def many_values(visit: Visit) -> None:
    """Thirty megabytes that would take six hundred once they are read."""
    values = b",".join([b"{}"] * (10 * MEGABYTE))
    visit.say(HEAD, framed(text("Half "), b"data: [", values, b"]\r\n\r\n"), END)


def never_ending(visit: Visit) -> None:
    visit.say(HEAD)
    while True:
        visit.say(framed(text("and on ")))
        time.sleep(0.02)


def ten_megabytes(visit: Visit) -> None:
    visit.say(HEAD, framed(text(TEN_MB), text(".", "STOP")), END)


def slow_start(visit: Visit) -> None:
    time.sleep(1.5)
    visit.say(HEAD)
    time.sleep(1.5)
    visit.say(GOOD[len(HEAD) :])


def long_answer(visit: Visit) -> None:
    """About three seconds of it."""
    visit.say(HEAD)
    for number in range(30):
        visit.say(framed(text(f"{number} ")))
        time.sleep(0.1)
    visit.say(framed(text("done.", "STOP")), END)


def silent_with_half(visit: Visit) -> None:
    visit.say(HEAD, framed(text("Half ")))
    visit.stall()


def flood(visit: Visit) -> None:
    """More than the buffers between us hold, so that a client that does not read is felt."""
    visit.say(HEAD)
    for _ in range(400):
        visit.say(framed(text("x" * 100_000)))
    visit.say(framed(text("done.", "STOP")), END)


THOUGHT = event({"text": "Hm.", "thought": True})
MALFORMED = HEAD + framed(THOUGHT, event(finish="MALFORMED_FUNCTION_CALL")) + END
EMPTY = HEAD + framed(event(finish="STOP")) + END
NOTHING = HEAD + END
THOUGHTS_ALONE = HEAD + framed(THOUGHT, event(finish="STOP")) + END
ERROR_AT_ONCE = HEAD + framed(b"data: " + ERROR_BODY + b"\r\n\r\n") + END
HTML = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"

DEEDS: dict[str, Deed] = {
    # what another attempt mends
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
    # what only takes its time
    "slow-start": slow_start,
    "drip": drip,
    "ten-megabytes": ten_megabytes,
    "gzip-unasked": gzip_unasked,
    "long": long_answer,
    # what cannot be mended
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
    # what would fill the memory
    "gzip-bomb": gzip_bomb,
    "endless-event": endless_event,
    "many-values": many_values,
    "overloaded": always(OVERLOADED),
    "quota": always(QUOTA),
    "empty": always(EMPTY),
    "malformed": always(MALFORMED),
    "signature": always(SIGNATURE),
    # for clients that leave or do not read
    "silent": silent_with_half,
    "flood": flood,
}
