"""Upstream faults on kept connections: surplus or missing bytes, contradictory heads, and unrequested
responses."""

from __future__ import annotations

import random
import time
import zlib

import orjson
from echoing_gemini import Behaviour, Question
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

#: Pause between two pieces that should arrive separately.
PAUSE = 0.005
GZIP_HEAD = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"


# --- correct answers ---------------------------------------------------------------------------------


def honest(question: Question) -> None:
    question.send(chunked(question.marker))


def honest_length(question: Question) -> None:
    question.send(sized(question.marker))


def honest_and_slow(question: Question) -> None:
    """An answer for clients that disconnect during it."""
    first, last = events(question.marker)
    question.send(HEAD, framed(first))
    time.sleep(random.uniform(0.02, 0.1))
    question.send(framed(last), END)


def rest_like_an_answer(question: Question) -> None:
    """Also for such clients: the unread rest of this answer looks like an answer itself."""
    first, last = events(question.marker)
    beginning = framed(first, b": HTTP/1.1 200 OK\r\nevent: x\r\n\r\n" + last)
    cut = beginning.index(b"HTTP/1.1")
    question.send(HEAD, beginning[:cut])
    time.sleep(1.5)
    question.send(beginning[cut:], END)


# --- surplus bytes -----------------------------------------------------------------------------------


def surplus_with_length(question: Question) -> None:
    question.send(sized(question.marker) + stray(question.marker))


def surplus_behind_length(question: Question) -> None:
    question.send(sized_to_a_reads_end(question.marker) + stray(question.marker))


def surplus_with_last_chunk(question: Question) -> None:
    question.send(chunked(question.marker) + framed(stray(question.marker)) + END)


def surplus_behind_last_chunk(question: Question) -> None:
    question.send(chunked_to_a_reads_end(question.marker) + stray(question.marker))


def much_surplus(question: Question) -> None:
    """More bytes than one read takes, so that some stay in the kernel's buffer."""
    question.send(chunked(question.marker) + forged(question.marker) * 400)


def second_answer_with_it(question: Question) -> None:
    question.send(chunked(question.marker) + forged(question.marker))


def second_answer_behind_it(question: Question) -> None:
    question.send(chunked_to_a_reads_end(question.marker) + forged(question.marker))


def second_answer_behind_length(question: Question) -> None:
    question.send(sized_to_a_reads_end(question.marker) + forged(question.marker))


def second_answer_while_idle(question: Question) -> None:
    question.later(forged(question.marker))
    question.send(chunked(question.marker))


def bytes_while_idle(question: Question) -> None:
    question.later(b"\r\n" + stray(question.marker))
    question.send(sized(question.marker))


def half_a_head_while_idle(question: Question) -> None:
    question.later(forged(question.marker)[:30])
    question.send(chunked(question.marker))


def timeout_while_idle(question: Question) -> None:
    """Many servers end an idle connection like this."""
    question.later(refusal(408, "DEADLINE_EXCEEDED", f"{question.marker} came too late."), close=True)
    question.send(chunked(question.marker))


def closed_while_idle(question: Question) -> None:
    question.later(b"", close=True)
    question.send(chunked(question.marker))


def closed_behind_answer(question: Question) -> None:
    question.send(chunked(question.marker))
    question.close_connection()


def kept_open_after_close(question: Question) -> None:
    """The head announces a close, but the connection continues."""
    question.send(sized(question.marker, b"Connection: close"), forged(question.marker))


# --- missing bytes -----------------------------------------------------------------------------------


def length_too_short(question: Question) -> None:
    question.send(sized(question.marker, off_by=-25))


def length_too_long(question: Question) -> None:
    question.send(sized(question.marker, off_by=25))
    time.sleep(PAUSE)
    question.close_connection()


def reset_in_answer(question: Question) -> None:
    question.send(HEAD, framed(events(question.marker)[0]))
    time.sleep(PAUSE)
    question.reset()


def closed_in_chunk(question: Question) -> None:
    question.send(HEAD, framed(events(question.marker)[0]), b"400\r\ndata: {")
    question.close_connection()


def reset_at_once(question: Question) -> None:
    if question.number == 1:
        question.reset()
    honest(question)


def no_finish(question: Question) -> None:
    question.send(HEAD, framed(events(question.marker)[0]), END)


# --- heads that contradict themselves ----------------------------------------------------------------


def length_and_chunks(question: Question) -> None:
    """By its length, the answer ends inside the chunks."""
    body = framed(*events(question.marker)) + END
    question.send(headed(b"Content-Length: 20", b"Transfer-Encoding: chunked") + body)


def two_lengths(question: Question) -> None:
    question.send(sized(question.marker, b"Content-Length: 20"))


def one_length_twice(question: Question) -> None:
    length = len(b"".join(events(question.marker)))
    question.send(sized(question.marker, b"Content-Length: %d" % length))


def length_below_zero(question: Question) -> None:
    question.send(headed(b"Content-Length: -5"), *events(question.marker))


def two_heads(question: Question) -> None:
    question.send(HEAD + chunked(question.marker))


def head_within_body(question: Question) -> None:
    """The text of the answer looks like the end of one response and the start of another."""
    first, last = events(question.marker)
    inside = b": " + forged(question.marker).replace(b"\r\n", b" ").replace(b"\n", b" ") + b"\r\n\r\n"
    question.send(HEAD, framed(first, inside, last), END)


def folded_coding(question: Question) -> None:
    question.send(headed(b"Transfer-Encoding:", b" chunked") + framed(*events(question.marker)) + END)
    question.close_connection()


def http_1_0(question: Question) -> None:
    question.send(sized(question.marker, b"Connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0"))


def no_length(question: Question) -> None:
    question.send(headed(b"Content-Type: text/event-stream"), *events(question.marker))
    question.close_connection()


# --- statuses ----------------------------------------------------------------------------------------


def interim_answers(question: Question) -> None:
    question.send(headed(status=b"100 Continue"), headed(b"Link: </a>", status=b"103 Early Hints"))
    question.send(headed(status=b"102 Processing") + chunked(question.marker))


def interim_with_body(question: Question) -> None:
    body = stray(question.marker)
    question.send(headed(b"Content-Length: %d" % len(body), status=b"100 Continue") + body)
    question.send(chunked(question.marker))


def no_content_with_body(question: Question) -> None:
    body = stray(question.marker)
    question.send(headed(b"Content-Length: %d" % len(body), status=b"204 No Content") + body)


def not_modified_with_body(question: Question) -> None:
    question.send(headed(b"Transfer-Encoding: chunked", status=b"304 Not Modified"))
    question.send(framed(stray(question.marker)) + END)


def refused_and_kept(question: Question) -> None:
    question.send(refused(question.marker))


def refused_with_surplus(question: Question) -> None:
    question.send(refused(question.marker) + forged(question.marker) * 400)


def overloaded_once(question: Question) -> None:
    question.send(overloaded(question.marker) if question.number == 1 else chunked(question.marker))


def overloaded_with_surplus(question: Question) -> None:
    question.send(overloaded(question.marker) + forged(question.marker) * 400)


def error_in_stream(question: Question) -> None:
    error = {"error": {"code": 500, "message": f"{question.marker} failed.", "status": "INTERNAL"}}
    question.send(HEAD, framed(events(question.marker)[0], orjson.dumps(error)), END)


# --- frames ------------------------------------------------------------------------------------------


def split_anywhere(question: Question) -> None:
    answer = chunked(question.marker)
    cuts = sorted(random.sample(range(1, len(answer)), 12))
    for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True):
        question.send(answer[start:end])
        time.sleep(0.001)


def trailers(question: Question) -> None:
    question.send(HEAD, framed(*events(question.marker)), b"0\r\n")
    question.send(f"Content-Length: 500\r\nX-Marker: {question.marker}\r\n\r\n".encode())


def extensions(question: Question) -> None:
    by = question.marker.encode()
    frames = [b"%x;by=%b\r\n%b\r\n" % (len(each), by, each) for each in events(question.marker)]
    question.send(HEAD, *frames, END)


def frame_longer_than_its_size(question: Question) -> None:
    first, last = events(question.marker)
    question.send(HEAD, framed(first), b"%x\r\n%b\r\n" % (len(last) - 10, last), END)


def frame_ends_by_bare_lf(question: Question) -> None:
    question.send(HEAD, framed(*events(question.marker)).replace(b"}\r\n\r\n\r\n", b"}\r\n\r\n\n"), END)


def size_with_sign(question: Question) -> None:
    question.send(HEAD, b"+" + framed(*events(question.marker)), END)


def gzip_with_garbage(question: Question) -> None:
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(b"".join(events(question.marker))) + packer.flush()
    question.send(GZIP_HEAD, framed(packed, stray(question.marker)), END)


def before_the_question(question: Question) -> None:
    """Answer after the head of the question; read its body after the answer is sent."""
    question.send(chunked(question.marker))
    question.read_body()


EARLY = frozenset({"before-the-question"})
#: Used more often than the faults; the faults run on their connections.
ORDINARY: dict[str, Behaviour] = {
    "honest": honest,
    "honest-length": honest_length,
    "honest-and-slow": honest_and_slow,
}
#: Additional behaviours for clients that disconnect.
SLOW_BEHAVIOURS: dict[str, Behaviour] = {"rest-like-an-answer": rest_like_an_answer}
#: Faults on idle connections between two questions.
IDLE_BEHAVIOURS: dict[str, Behaviour] = {
    "second-answer-while-idle": second_answer_while_idle,
    "bytes-while-idle": bytes_while_idle,
    "half-a-head-while-idle": half_a_head_while_idle,
    "timeout-while-idle": timeout_while_idle,
    "closed-while-idle": closed_while_idle,
}
CONNECTION_FAULTS: dict[str, Behaviour] = {
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
#: After these the connection must not be reused; the wrong bytes arrive before the answer's end.
UNSAFE_TO_REUSE = frozenset(
    {
        *(name for name in CONNECTION_FAULTS if "surplus" in name or "second-answer" in name),
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
