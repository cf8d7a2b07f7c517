"""What an upstream does wrong on connections that are kept open: bytes too many or too few, heads that
contradict themselves, and things that nobody asked for."""

from __future__ import annotations

import random
import time
import zlib

import orjson
from echoing_gemini import Deed, Question
from evil_gemini import END, HEAD, framed, refusal

from tests.attacks.marked_answers import (
    chunked,
    chunked_to_a_reads_end,
    events,
    forged,
    headed,
    overloaded,
    refused,
    sized,
    sized_to_a_reads_end,
    stray,
)

#: Between two pieces that should arrive apart.
PAUSE = 0.005
GZIP_HEAD = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"


# --- nothing wrong -----------------------------------------------------------------------------------


def honest(question: Question) -> None:
    question.say(chunked(question.marker))


def honest_length(question: Question) -> None:
    question.say(sized(question.marker))


def honest_and_slow(question: Question) -> None:
    """For clients that leave in the middle."""
    first, last = events(question.marker)
    question.say(HEAD, framed(first))
    time.sleep(random.uniform(0.02, 0.1))
    question.say(framed(last), END)


def rest_like_an_answer(question: Question) -> None:
    """For those clients too: whoever reads from where they left off finds what looks like an answer."""
    first, last = events(question.marker)
    beginning = framed(first, b": HTTP/1.1 200 OK\r\nevent: x\r\n\r\n" + last)
    cut = beginning.index(b"HTTP/1.1")
    question.say(HEAD, beginning[:cut])
    time.sleep(1.5)
    question.say(beginning[cut:], END)


# --- too much ----------------------------------------------------------------------------------------


def surplus_with_length(question: Question) -> None:
    question.say(sized(question.marker) + stray(question.marker))


def surplus_behind_length(question: Question) -> None:
    question.say(sized_to_a_reads_end(question.marker) + stray(question.marker))


def surplus_with_last_chunk(question: Question) -> None:
    question.say(chunked(question.marker) + framed(stray(question.marker)) + END)


def surplus_behind_last_chunk(question: Question) -> None:
    question.say(chunked_to_a_reads_end(question.marker) + stray(question.marker))


def much_surplus(question: Question) -> None:
    """More than one read takes, so that some of it stays with the kernel."""
    question.say(chunked(question.marker) + forged(question.marker) * 400)


def second_answer_with_it(question: Question) -> None:
    question.say(chunked(question.marker) + forged(question.marker))


def second_answer_behind_it(question: Question) -> None:
    question.say(chunked_to_a_reads_end(question.marker) + forged(question.marker))


def second_answer_behind_length(question: Question) -> None:
    question.say(sized_to_a_reads_end(question.marker) + forged(question.marker))


def second_answer_while_idle(question: Question) -> None:
    question.later(forged(question.marker))
    question.say(chunked(question.marker))


def bytes_while_idle(question: Question) -> None:
    question.later(b"\r\n" + stray(question.marker))
    question.say(sized(question.marker))


def half_a_head_while_idle(question: Question) -> None:
    question.later(forged(question.marker)[:30])
    question.say(chunked(question.marker))


def timeout_while_idle(question: Question) -> None:
    """As many servers end a connection that nobody used for long."""
    question.later(refusal(408, "DEADLINE_EXCEEDED", f"{question.marker} came too late."), close=True)
    question.say(chunked(question.marker))


def closed_while_idle(question: Question) -> None:
    question.later(b"", close=True)
    question.say(chunked(question.marker))


def closed_behind_answer(question: Question) -> None:
    question.say(chunked(question.marker))
    question.hang_up()


def kept_open_after_close(question: Question) -> None:
    """It says that it closes, and goes on."""
    question.say(sized(question.marker, b"Connection: close"), forged(question.marker))


# --- too little --------------------------------------------------------------------------------------


def length_too_short(question: Question) -> None:
    question.say(sized(question.marker, off_by=-25))


def length_too_long(question: Question) -> None:
    question.say(sized(question.marker, off_by=25))
    time.sleep(PAUSE)
    question.hang_up()


def reset_in_answer(question: Question) -> None:
    question.say(HEAD, framed(events(question.marker)[0]))
    time.sleep(PAUSE)
    question.reset()


def closed_in_chunk(question: Question) -> None:
    question.say(HEAD, framed(events(question.marker)[0]), b"400\r\ndata: {")
    question.hang_up()


def reset_at_once(question: Question) -> None:
    if question.number == 1:
        question.reset()
    honest(question)


def no_finish(question: Question) -> None:
    question.say(HEAD, framed(events(question.marker)[0]), END)


# --- heads that contradict themselves ----------------------------------------------------------------


def length_and_chunks(question: Question) -> None:
    """By its length the answer ends in the middle of the chunks."""
    body = framed(*events(question.marker)) + END
    question.say(headed(b"Content-Length: 20", b"Transfer-Encoding: chunked") + body)


def two_lengths(question: Question) -> None:
    question.say(sized(question.marker, b"Content-Length: 20"))


def one_length_twice(question: Question) -> None:
    length = len(b"".join(events(question.marker)))
    question.say(sized(question.marker, b"Content-Length: %d" % length))


def length_below_zero(question: Question) -> None:
    question.say(headed(b"Content-Length: -5"), *events(question.marker))


def two_heads(question: Question) -> None:
    question.say(HEAD + chunked(question.marker))


def head_within_body(question: Question) -> None:
    """An answer that says what looks like the end of one and the beginning of another."""
    first, last = events(question.marker)
    inside = b": " + forged(question.marker).replace(b"\r\n", b" ").replace(b"\n", b" ") + b"\r\n\r\n"
    question.say(HEAD, framed(first, inside, last), END)


def folded_coding(question: Question) -> None:
    question.say(headed(b"Transfer-Encoding:", b" chunked") + framed(*events(question.marker)) + END)
    question.hang_up()


def http_1_0(question: Question) -> None:
    question.say(sized(question.marker, b"Connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0"))


def no_length(question: Question) -> None:
    question.say(headed(b"Content-Type: text/event-stream"), *events(question.marker))
    question.hang_up()


# --- statuses ----------------------------------------------------------------------------------------


def interim_answers(question: Question) -> None:
    question.say(headed(status=b"100 Continue"), headed(b"Link: </a>", status=b"103 Early Hints"))
    question.say(headed(status=b"102 Processing") + chunked(question.marker))


def interim_with_body(question: Question) -> None:
    body = stray(question.marker)
    question.say(headed(b"Content-Length: %d" % len(body), status=b"100 Continue") + body)
    question.say(chunked(question.marker))


def no_content_with_body(question: Question) -> None:
    body = stray(question.marker)
    question.say(headed(b"Content-Length: %d" % len(body), status=b"204 No Content") + body)


def not_modified_with_body(question: Question) -> None:
    question.say(headed(b"Transfer-Encoding: chunked", status=b"304 Not Modified"))
    question.say(framed(stray(question.marker)) + END)


def refused_and_kept(question: Question) -> None:
    question.say(refused(question.marker))


def refused_with_surplus(question: Question) -> None:
    question.say(refused(question.marker) + forged(question.marker) * 400)


def overloaded_once(question: Question) -> None:
    question.say(overloaded(question.marker) if question.number == 1 else chunked(question.marker))


def overloaded_with_surplus(question: Question) -> None:
    question.say(overloaded(question.marker) + forged(question.marker) * 400)


def error_in_stream(question: Question) -> None:
    error = {"error": {"code": 500, "message": f"{question.marker} failed.", "status": "INTERNAL"}}
    question.say(HEAD, framed(events(question.marker)[0], orjson.dumps(error)), END)


# --- frames ------------------------------------------------------------------------------------------


def split_anywhere(question: Question) -> None:
    answer = chunked(question.marker)
    cuts = sorted(random.sample(range(1, len(answer)), 12))
    for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True):
        question.say(answer[start:end])
        time.sleep(0.001)


def trailers(question: Question) -> None:
    question.say(HEAD, framed(*events(question.marker)), b"0\r\n")
    question.say(f"Content-Length: 500\r\nX-Marker: {question.marker}\r\n\r\n".encode())


def extensions(question: Question) -> None:
    by = question.marker.encode()
    frames = [b"%x;by=%b\r\n%b\r\n" % (len(each), by, each) for each in events(question.marker)]
    question.say(HEAD, *frames, END)


def frame_longer_than_its_size(question: Question) -> None:
    first, last = events(question.marker)
    question.say(HEAD, framed(first), b"%x\r\n%b\r\n" % (len(last) - 10, last), END)


def frame_ends_by_bare_lf(question: Question) -> None:
    question.say(HEAD, framed(*events(question.marker)).replace(b"}\r\n\r\n\r\n", b"}\r\n\r\n\n"), END)


def size_with_sign(question: Question) -> None:
    question.say(HEAD, b"+" + framed(*events(question.marker)), END)


def gzip_with_garbage(question: Question) -> None:
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(b"".join(events(question.marker))) + packer.flush()
    question.say(GZIP_HEAD, framed(packed, stray(question.marker)), END)


def before_the_question(question: Question) -> None:
    """Answered by the head of the question alone; the rest of it is read when all is said."""
    question.say(chunked(question.marker))
    question.read_body()


EARLY = frozenset({"before-the-question"})
#: Asked for more often: what they leave is used by the others.
ORDINARY: dict[str, Deed] = {
    "honest": honest,
    "honest-length": honest_length,
    "honest-and-slow": honest_and_slow,
}
#: For clients that leave, beside all others.
LONG_DEEDS: dict[str, Deed] = {"rest-like-an-answer": rest_like_an_answer}
#: Done while nobody asks, on connections that wait for the next question.
IDLE_DEEDS: dict[str, Deed] = {
    "second-answer-while-idle": second_answer_while_idle,
    "bytes-while-idle": bytes_while_idle,
    "half-a-head-while-idle": half_a_head_while_idle,
    "timeout-while-idle": timeout_while_idle,
    "closed-while-idle": closed_while_idle,
}
MISDEEDS: dict[str, Deed] = {
    "surplus-with-length": surplus_with_length,
    "surplus-behind-length": surplus_behind_length,
    "surplus-with-last-chunk": surplus_with_last_chunk,
    "surplus-behind-last-chunk": surplus_behind_last_chunk,
    "much-surplus": much_surplus,
    "second-answer-with-it": second_answer_with_it,
    "second-answer-behind-it": second_answer_behind_it,
    "second-answer-behind-length": second_answer_behind_length,
    "closed-behind-answer": closed_behind_answer,
    "kept-open-after-close": kept_open_after_close,
    "length-too-short": length_too_short,
    "length-too-long": length_too_long,
    "reset-in-answer": reset_in_answer,
    "closed-in-chunk": closed_in_chunk,
    "reset-at-once": reset_at_once,
    "no-finish": no_finish,
    "length-and-chunks": length_and_chunks,
    "two-lengths": two_lengths,
    "one-length-twice": one_length_twice,
    "length-below-zero": length_below_zero,
    "two-heads": two_heads,
    "head-within-body": head_within_body,
    "folded-coding": folded_coding,
    "http-1-0": http_1_0,
    "no-length": no_length,
    "interim-answers": interim_answers,
    "interim-with-body": interim_with_body,
    "no-content-with-body": no_content_with_body,
    "not-modified-with-body": not_modified_with_body,
    "refused-and-kept": refused_and_kept,
    "refused-with-surplus": refused_with_surplus,
    "overloaded-once": overloaded_once,
    "overloaded-with-surplus": overloaded_with_surplus,
    "error-in-stream": error_in_stream,
    "split-anywhere": split_anywhere,
    "trailers": trailers,
    "extensions": extensions,
    "frame-longer-than-its-size": frame_longer_than_its_size,
    "frame-ends-by-bare-lf": frame_ends_by_bare_lf,
    "size-with-sign": size_with_sign,
    "gzip-with-garbage": gzip_with_garbage,
    "before-the-question": before_the_question,
}
#: What follows on the same connection is not to be trusted, and all of it was there before the answer's end.
SPOILING = frozenset(
    {
        *(name for name in MISDEEDS if "surplus" in name or "second-answer" in name),
        "kept-open-after-close",
        "length-too-short",
        "length-and-chunks",
        "two-lengths",
        "length-below-zero",
        "two-heads",
        "interim-with-body",
        "no-content-with-body",
        "not-modified-with-body",
        "frame-longer-than-its-size",
        "frame-ends-by-bare-lf",
        "size-with-sign",
    }
)
