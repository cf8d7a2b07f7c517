"""The known ways in which Gemini misbehaves, by name; the table at the end documents them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import repeat
from typing import NamedTuple

from bridge.upstream.demo import refusals, signatures, strict
from bridge.upstream.demo.refusals import DemoRefusal
from bridge.upstream.demo.script import Fields, Piece, Reply, Scene, Script, paced, sse

STALL_SECONDS = 600.0
HUGE_CHARACTERS = 10_000_000
BURST_CHUNKS = 200

#: One red pixel.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
UNICODE = (
    "Line\u2028separator, paragraph\u2029separator, next\u0085line; ",
    "family 👨\u200d👩\u200d👧\u200d👦, flag 🇪🇺; right to left: שלום עליכם, مرحبا; ",
    "combining: e\u0301 n\u0303 Z\u0351\u036b; zero width: a\u200bb; high plane: 𝔊𝔢𝔪𝔦𝔫𝔦; CJK: 橋を渡る.",
)
RATINGS = [{"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True}]
SOURCE = {"uri": "https://example.com/bridges", "title": "example.com"}
GROUNDING = {
    "webSearchQueries": ["gemini bridge"],
    "groundingChunks": [{"web": SOURCE}],
    "groundingSupports": [{"segment": {"startIndex": 0, "endIndex": 20}, "groundingChunkIndices": [0]}],
}
CITATIONS = {"citationSources": [{"startIndex": 0, "endIndex": 40, "uri": SOURCE["uri"]}]}


class Fault(NamedTuple):
    play: Callable[[Scene], Reply]
    summary: str


# --- timing ------------------------------------------------------------------------------------------


def _unchanged(scene: Scene) -> Reply:
    return scene.reply()


def _slow(scene: Scene) -> Reply:
    return Reply(200, paced(scene.chunks(), repeat(1.0)))


def _stall(scene: Scene) -> Reply:
    return Reply(200, iter([sse(next(scene.chunks())), STALL_SECONDS]))


def _drip(scene: Scene) -> Reply:
    body = b"".join(map(sse, scene.chunks()))
    return Reply(200, (body[place : place + 1] for place in range(len(body))))


def _burst(scene: Scene) -> Reply:
    words: Iterator[Piece] = (({"text": f"word {number} "},) for number in range(1, BURST_CHUNKS + 1))
    chunks = replace(scene, scripts=(Script(tuple(words)),)).chunks()
    return Reply(200, iter([b"".join(map(sse, chunks))]))


def _huge(scene: Scene) -> Reply:
    return _only(scene, {"text": "0123456789" * (HUGE_CHARACTERS // 10)})


# --- streams that break ------------------------------------------------------------------------------


def _cut(scene: Scene) -> Reply:
    return scene.unfinished().reply()


def _drop(scene: Scene) -> Reply:
    return Reply(200, _dropped(scene.unfinished().reply().body))


def _dropped(body: Iterator[bytes | float]) -> Iterator[bytes | float]:
    yield from body
    raise ConnectionResetError("Connection reset by peer")


def _ending_with(last_bytes: bytes) -> Callable[[Scene], Reply]:
    return lambda scene: Reply(200, _followed(scene.unfinished().reply().body, last_bytes))


def _followed(body: Iterator[bytes | float], last_bytes: bytes) -> Iterator[bytes | float]:
    yield from body
    yield last_bytes


def _usage_late(scene: Scene) -> Reply:
    return Reply(200, _usage_after(scene))


def _usage_after(scene: Scene) -> Iterator[bytes | float]:
    usage: Fields = {}
    for chunk, pause in zip(scene.chunks(), scene.pauses(), strict=False):
        usage = chunk.pop("usageMetadata")
        yield pause
        yield sse(chunk)
    yield sse(scene.chunk(usageMetadata=usage))


def _early_stop(scene: Scene) -> Reply:
    empty = replace(scene, scripts=(Script(),))
    return Reply(200, _early_stopped(next(empty.chunks()), scene.reply().body))


def _early_stopped(stop: Fields, body: Iterator[bytes | float]) -> Iterator[bytes | float]:
    yield sse(stop)
    yield from body


# --- refusals ----------------------------------------------------------------------------------------


def _refused(refusal: DemoRefusal) -> Callable[[Scene], Reply]:
    return lambda scene: refusal.reply()


def _unknown_model(scene: Scene) -> Reply:
    return refusals.unknown_model(scene.ask.model).reply()


def _html(scene: Scene) -> Reply:
    return Reply(502, iter([b"<!DOCTYPE html>\n<html><title>502</title><body>Bad Gateway</body></html>\n"]))


def _blocked(scene: Scene) -> Reply:
    count = scene.ask.prompt_tokens
    chunk = scene.chunk(
        promptFeedback={"blockReason": "SAFETY", "safetyRatings": RATINGS},
        usageMetadata={"promptTokenCount": count, "totalTokenCount": count},
    )
    return Reply(200, iter([sse(chunk)]))


def _strict(scene: Scene) -> Reply:
    message = strict.violation(scene.ask.request)
    return scene.reply() if message is None else refusals.invalid(message).reply()


# --- unusual endings ---------------------------------------------------------------------------------


def _halfway(finish: str, **closing: object) -> Callable[[Scene], Reply]:
    return lambda scene: scene.rewritten(lambda script: Script(_first_half(script), finish, closing)).reply()


def _first_half(script: Script) -> tuple[Piece, ...]:
    return script.pieces[: (len(script.pieces) + 1) // 2]


def _ending(finish: str, **closing: object) -> Callable[[Scene], Reply]:
    return lambda scene: scene.rewritten(lambda script: Script(script.pieces, finish, closing)).reply()


def _silent(finish: str, **closing: object) -> Callable[[Scene], Reply]:
    return lambda scene: replace(scene, scripts=(Script((), finish, closing),)).reply()


def _thought_then(finish: str | None) -> Callable[[Scene], Reply]:
    piece: Piece = ({"text": "**Considering**\n\nWhat could be said about this?", "thought": True},)
    return lambda scene: replace(scene, scripts=(Script((piece,), finish),)).reply()


def _continuation(scene: Scene) -> Reply:
    if "continuationToken" in scene.ask.request.extra:
        rest = scene.rewritten(lambda script: Script(script.pieces[len(_first_half(script)) :]))
        return rest.reply()
    return _halfway("CONTINUATION", continuationToken=signatures.mint(b"continuation"))(scene)


# --- parts of other kinds ----------------------------------------------------------------------------


def _only(scene: Scene, *parts: Fields) -> Reply:
    """Only these parts, one in each chunk."""
    return replace(scene, scripts=(Script(tuple((part,) for part in parts)),)).reply()


def _signed_text(scene: Scene) -> Reply:
    signature = signatures.mint(scene.ask.digest + b"text")
    return scene.rewritten(lambda script: _with_last_text_signed(script, signature)).reply()


def _with_last_text_signed(script: Script, signature: str) -> Script:
    texts = [place for place, piece in enumerate(script.pieces) if piece and piece[-1].get("text")]
    if not texts:
        return script
    pieces = list(script.pieces)
    *before, last = pieces[texts[-1]]
    pieces[texts[-1]] = (*before, last | {"thoughtSignature": signature})
    return replace(script, pieces=tuple(pieces))


def _signed_thought(scene: Scene) -> Reply:
    signature = signatures.mint(scene.ask.digest + b"thought")
    thought: Piece = ({"text": "", "thought": True, "thoughtSignature": signature},)
    return scene.rewritten(lambda script: replace(script, pieces=(thought, *_unsigned(script)))).reply()


def _unsigned(script: Script) -> Iterator[Piece]:
    for piece in script.pieces:
        yield tuple({key: part[key] for key in part if key != "thoughtSignature"} for part in piece)


def _code(scene: Scene) -> Reply:
    return _only(
        scene,
        {"text": "Let me calculate that.\n"},
        {"executableCode": {"language": "PYTHON", "code": "print(sum(range(10)))\n"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "45\n"}},
        {"text": "The sum is 45."},
    )


def _image(scene: Scene) -> Reply:
    picture = {"mimeType": "image/png", "data": PNG}
    return _only(scene, {"text": "Here is a red pixel: "}, {"inlineData": picture})


def _unicode(scene: Scene) -> Reply:
    return _only(scene, *({"text": piece} for piece in UNICODE))


_bare_error = _ending_with(refusals.OVERLOADED.body())
_error_event = _ending_with(sse(refusals.OVERLOADED.envelope()))
_garbage = _ending_with(b"data: not json\r\n\r\n")
_safety = _halfway("SAFETY", safetyRatings=RATINGS)
_recitation = _halfway("RECITATION", citationMetadata=CITATIONS)
_bad_call = _silent("MALFORMED_FUNCTION_CALL", finishMessage="Malformed function call: print(f(x='")
_stray_call = _silent("UNEXPECTED_TOOL_CALL", finishMessage="Model tried to call an undeclared function: f")
_grounding = _ending("STOP", groundingMetadata=GROUNDING)

#: Selected by the model name `demo-<name>` or by `[demo:<name>]` in the prompt.
FAULTS: dict[str, Fault] = {
    # behaviour that the plain model shows on request
    "think": Fault(_unchanged, "thinks aloud, then answers; the last part is empty and signed"),
    "tool": Fault(_unchanged, "calls a declared tool, whatever the prompt says"),
    "parallel": Fault(
        _unchanged, "calls two declared tools at once, one per chunk, only the first one signed"
    ),
    "strict": Fault(_strict, "refuses conversations that break Gemini's rules of turns and signatures"),
    # time
    "slow": Fault(_slow, "waits a second before each chunk"),
    "stall": Fault(_stall, "sends one chunk, then is silent for ten minutes"),
    "drip": Fault(_drip, "sends the stream byte by byte"),
    "burst": Fault(_burst, "sends 200 chunks at once"),
    "huge": Fault(_huge, "sends ten megabytes of text in one chunk"),
    # refusals
    "400": Fault(_refused(refusals.INVALID), "answers 400: the request is invalid, without a reason"),
    "badkey": Fault(_refused(refusals.BAD_KEY), "answers 400: the API key is not valid"),
    "overflow": Fault(_refused(refusals.TOO_LONG), "answers 400: too many input tokens"),
    "403": Fault(_refused(refusals.FORBIDDEN), "answers 403: permission denied"),
    "404": Fault(_unknown_model, "answers 404: no such model"),
    "429": Fault(
        _refused(refusals.BUSY_MINUTE), "answers 429: quota per minute exceeded, retry in 7 seconds"
    ),
    "429-day": Fault(_refused(refusals.SPENT_DAY), "answers 429: quota per day exceeded"),
    "500": Fault(_refused(refusals.INTERNAL), "answers 500: internal error"),
    "html": Fault(_html, "answers 502 with an HTML page, as a proxy in between would"),
    "503": Fault(_refused(refusals.OVERLOADED), "answers 503: the model is overloaded"),
    "504": Fault(_refused(refusals.LATE), "answers 504: deadline exceeded"),
    "blocked": Fault(_blocked, "blocks the prompt: feedback instead of candidates"),
    # streams that break
    "cut": Fault(_cut, "ends the stream in the middle, without a finish reason"),
    "drop": Fault(_drop, "resets the connection in the middle"),
    "midstream-error": Fault(_bare_error, "fails in the middle with bare JSON in the stream"),
    "midstream-error-data": Fault(_error_event, "fails in the middle with an error event"),
    "garbage": Fault(_garbage, "sends an event that is not JSON"),
    "early-stop": Fault(_early_stop, "sends an empty STOP before it says anything"),
    "usage-late": Fault(_usage_late, "reports usage only in a chunk after the finish"),
    # ends
    "empty": Fault(_silent("STOP"), "finishes properly and says nothing"),
    "nofinish": Fault(_thought_then(None), "thinks, then ends without answer or finish reason"),
    "starved": Fault(_thought_then("MAX_TOKENS"), "uses all its tokens for thinking"),
    "length": Fault(_halfway("MAX_TOKENS"), "runs out of tokens halfway"),
    "continuation": Fault(_continuation, "stops halfway and sends a continuation token"),
    "safety": Fault(_safety, "is stopped by the safety filter halfway"),
    "recitation": Fault(_recitation, "is stopped for reciting halfway"),
    "malformed-call": Fault(_bad_call, "fails to write a function call"),
    "unexpected-call": Fault(_stray_call, "fails because it called a tool that was not declared"),
    "unknown-finish": Fault(_ending("SOMETHING_NEW"), "finishes for an unknown reason"),
    # unusual parts
    "signature-text": Fault(_signed_text, "signs the last visible text"),
    "signature-thought": Fault(
        _signed_thought, "signs an empty thought at the start, and not the call itself"
    ),
    "code": Fault(_code, "runs code: executable code, its result, then text"),
    "image": Fault(_image, "draws: a tiny PNG beside the text"),
    "grounding": Fault(_grounding, "names its sources with the last chunk"),
    "unicode": Fault(_unicode, "speaks in line separators, emoji, right-to-left and combining characters"),
}
