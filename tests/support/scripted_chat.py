"""What servers that speak Chat Completions or Ollama's API send: one value for each quirk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

Event = dict[str, Any]
DONE = b"data: [DONE]\n\n"
LOOK, LIST = "look", "list_files"
WHERE = {"where": {"x": 1, "text": 'a "}" b'}}
WHERE_TEXT = orjson.dumps(WHERE).decode()
MIDDLE = len(WHERE_TEXT) // 2


def sse(*events: Event, done: bool = True) -> bytes:
    lines = b"".join(b"data: " + orjson.dumps(event) + b"\n\n" for event in events)
    return lines + DONE if done else lines


def choice(delta: Event, finish: str | None = None, **more: Any) -> Event:
    return {
        "id": "c-1",
        "object": "chat.completion.chunk",
        "model": "qwen3-coder",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}],
    }


def text(said: str) -> Event:
    return choice({"content": said})


def calls(*pieces: Event) -> Event:
    return choice({"tool_calls": list(pieces)})


def piece(name: str | None = None, arguments: Any = None, **more: Any) -> Event:
    given = {"name": name, "arguments": arguments}
    return {**more, "function": {key: value for key, value in given.items() if value is not None}}


def end(finish: str = "tool_calls") -> Event:
    return choice({}, finish)


def counted(prompt: int = 7, completion: int = 5, **more: Any) -> Event:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, **more}
    return {"id": "c-1", "model": "qwen3-coder", "choices": [], "usage": usage}


def lines(*events: Event) -> bytes:
    return b"".join(orjson.dumps(event) + b"\n" for event in events)


@dataclass(frozen=True)
class Quirk:
    """The body of an answer and what the client gets of it."""

    name: str
    body: bytes
    text: str = ""
    thoughts: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    finish: str = "STOP"
    ids: Sequence[str | None] = field(default=())  #: of the calls; () means that they are not compared
    dialect: str = "vllm"
    kind: str = "openai"


ONE = [(LOOK, WHERE)]
TWO = [(LOOK, WHERE), (LIST, {"at": "/"})]
AT = '{"at":"/"}'


def halves(**label: Any) -> tuple[Event, Event]:
    return piece(LOOK, WHERE_TEXT[:MIDDLE], **label), piece(None, WHERE_TEXT[MIDDLE:], **label)


USED = {"usage": counted()["usage"]}
WHOLE = {
    "index": 0,
    "message": {"content": "Hi", "tool_calls": [piece(LOOK, WHERE_TEXT, id="a")]},
    "finish_reason": "tool_calls",
}


def line(said: Event, **more: Any) -> Event:
    return {"model": "qwen3", "message": {"role": "assistant", "content": "", **said}, "done": False, **more}


QUIRKS = [
    Quirk("text", sse(text("Hel"), text("lo."), end("stop"), counted()), "Hello."),
    Quirk(
        "arguments in pieces, id only in the first delta",
        sse(
            calls(piece(LOOK, "", index=0, id="call_a", type="function")),
            calls(piece(None, WHERE_TEXT[:MIDDLE], index=0)),
            calls(piece(None, WHERE_TEXT[MIDDLE:], index=0)),
            end(),
            counted(),
        ),
        calls=ONE,
        ids=["call_a"],
    ),
    Quirk(
        "index missing, each call in a delta of its own",
        sse(calls(piece(LOOK, WHERE_TEXT, id="a")), calls(piece(LIST, AT, id="b")), end("stop")),
        calls=TWO,
        ids=["a", "b"],
    ),
    Quirk(
        "a text and a repeated call after the calls",
        sse(
            calls(piece(LOOK, WHERE_TEXT, index=0, id="a")),
            text("So."),
            calls(piece(LOOK, WHERE_TEXT, id="a")),
            end(),
        ),
        "So.",
        calls=ONE,
        ids=["a"],
    ),
    Quirk(
        "index missing, both calls in one delta",
        sse(calls(piece(LOOK, WHERE_TEXT), piece(LIST, AT)), end()),
        calls=TWO,
        ids=[None, None],
    ),
    Quirk(
        "index always 0, another id",
        sse(calls(piece(LOOK, WHERE_TEXT, index=0, id="a")), calls(piece(LIST, AT, index=0, id="b")), end()),
        calls=TWO,
        ids=["a", "b"],
    ),
    Quirk(
        "index always 0, no id",
        sse(calls(piece(LOOK, WHERE_TEXT, index=0)), calls(piece(LIST, AT, index=0)), end()),
        calls=TWO,
    ),
    Quirk(
        "index always 0, the same tool twice without an id",
        sse(calls(piece(LIST, AT, index=0)), calls(piece(LIST, '{"at":"/etc"}', index=0)), end()),
        calls=[(LIST, {"at": "/"}), (LIST, {"at": "/etc"})],
    ),
    Quirk(
        "index starts at 1",
        sse(calls(piece(LOOK, WHERE_TEXT, index=1, id="a")), calls(piece(LIST, AT, index=2, id="b")), end()),
        calls=TWO,
        ids=["a", "b"],
    ),
    Quirk(
        "id missing at first",
        sse(calls(halves(index=0)[0]), calls({**halves(index=0)[1], "id": "late"}), end()),
        calls=ONE,
        ids=["late"],
    ),
    Quirk(
        "id repeated in every delta",
        sse(*(calls(each) for each in halves(index=0, id="a")), end()),
        calls=ONE,
        ids=["a"],
    ),
    Quirk(
        "another id in every delta of one call",
        sse(
            calls(piece(LOOK, "", index=0, id="r1")),
            *(
                calls(piece(None, each, index=0, id=f"r{number}"))
                for number, each in enumerate((WHERE_TEXT[:MIDDLE], WHERE_TEXT[MIDDLE:]), 2)
            ),
            end(),
        ),
        calls=ONE,
        ids=["r1"],
    ),
    Quirk(
        "id repeated, index changing",
        sse(calls(halves(index=0, id="a")[0]), calls(halves(index=3, id="a")[1]), end()),
        calls=ONE,
        ids=["a"],
    ),
    Quirk(
        "one id for all calls",
        sse(calls(piece(LOOK, WHERE_TEXT, index=0, id="a")), calls(piece(LIST, AT, index=1, id="a")), end()),
        calls=TWO,
    ),
    Quirk(
        "one id for all calls, index missing",
        sse(calls(piece(LOOK, WHERE_TEXT, id="a"), piece(LIST, AT, id="a")), end()),
        calls=TWO,
    ),
    Quirk(
        "one id for all calls, whose pieces alternate",
        sse(
            calls(piece(LOOK, "", index=0, id="a"), piece(LIST, "", index=1, id="a")),
            calls(piece(None, WHERE_TEXT, index=0, id="a"), piece(None, AT, index=1, id="a")),
            end(),
        ),
        calls=TWO,
    ),
    Quirk(
        "two calls whose pieces alternate",
        sse(
            calls(piece(LOOK, WHERE_TEXT[:MIDDLE], index=0, id="a"), piece(LIST, '{"at":', index=1, id="b")),
            calls(piece(None, '"/"}', index=1)),
            calls(piece(None, WHERE_TEXT[MIDDLE:], index=0)),
            end(),
        ),
        calls=TWO,
        ids=["a", "b"],
    ),
    Quirk(
        "name repeated in each delta",
        sse(
            *(calls({**each, "function": {**each["function"], "name": LOOK}}) for each in halves(index=0)),
            end(),
        ),
        calls=ONE,
    ),
    Quirk(
        "name in pieces",
        sse(
            calls(piece("lo", index=0, id="a")),
            calls(piece("ok", index=0)),
            calls(piece(None, WHERE_TEXT, index=0)),
            end(),
        ),
        calls=ONE,
    ),
    Quirk("whole arguments", sse(calls(piece(LOOK, WHERE_TEXT, index=0, id="a")), end()), calls=ONE),
    Quirk(
        "an empty object and then the real one",
        sse(
            calls(piece(LOOK, "{}", index=0, id="a")), calls(piece(LOOK, WHERE_TEXT, index=0, id="a")), end()
        ),
        calls=ONE,
        dialect="dashscope",
    ),
    Quirk(
        "an empty object, a line break as the text, and then the real object",
        sse(calls(piece(LOOK, "{}", index=0)), text("\n"), calls(piece(None, WHERE_TEXT, index=0)), end()),
        "\n",
        calls=ONE,
    ),
    Quirk(
        "a thought between two calls",
        sse(
            calls(piece(LOOK, WHERE_TEXT, index=0)),
            choice({"reasoning": "Hm."}),
            calls(piece(LIST, AT, index=1)),
            end(),
        ),
        thoughts="Hm.",
        calls=TWO,
    ),
    Quirk(
        "a whole call repeated",
        sse(*[calls(piece(LOOK, WHERE_TEXT, index=0, id="a"))] * 3, end()),
        calls=ONE,
        ids=["a"],
    ),
    Quirk(
        "arguments as an empty text", sse(calls(piece(LOOK, "", index=0, id="a")), end()), calls=[(LOOK, {})]
    ),
    Quirk("arguments missing", sse(calls(piece(LOOK, index=0, id="a")), end()), calls=[(LOOK, {})]),
    Quirk("arguments null", sse(calls(piece(LOOK, "null", index=0)), end()), calls=[(LOOK, {})]),
    Quirk(
        "two calls without arguments, index always 0",
        sse(calls(piece(LOOK, index=0)), calls(piece(LIST, index=0)), end()),
        calls=[(LOOK, {}), (LIST, {})],
    ),
    Quirk("arguments as an object", sse(calls(piece(LOOK, WHERE, index=0, id="a")), end()), calls=ONE),
    Quirk(
        "cumulative text",
        sse(text("Hello"), text("Hello wor"), text("Hello world"), text("Hello world"), end("stop")),
        "Hello world",
    ),
    Quirk(
        "cumulative thoughts",
        sse(
            *(choice({"reasoning_content": each}) for each in ("H", "Hm, l", "Hm, let")),
            text("So."),
            end("stop"),
        ),
        "So.",
        "Hm, let",
        dialect="dashscope",
    ),
    Quirk("text that begins like itself", sse(text("ha"), text("haha"), end("stop")), "hahaha"),
    Quirk(
        "cumulative arguments",
        sse(calls(piece(LOOK, WHERE_TEXT[:MIDDLE], index=0)), calls(piece(None, WHERE_TEXT, index=0)), end()),
        calls=ONE,
    ),
    Quirk(
        "arguments encoded twice",
        sse(calls(piece(LOOK, orjson.dumps(WHERE_TEXT).decode(), index=0, id="a")), end()),
        calls=ONE,
    ),
    Quirk(
        "finish stop after a call",
        sse(text("I look."), calls(piece(LOOK, WHERE_TEXT, index=0, id="a")), end("stop")),
        "I look.",
        calls=ONE,
        dialect="llamacpp",
    ),
    Quirk(
        "a call that the token limit cut",
        sse(
            text("I look."),
            calls(piece(LIST, AT, index=0)),
            calls(piece(LOOK, WHERE_TEXT[:MIDDLE], index=1)),
            end("length"),
        ),
        "I look.",
        calls=[(LIST, {"at": "/"})],
        finish="MAX_TOKENS",
    ),
    Quirk(
        "two chunks with a finish reason",
        sse(
            calls(piece(LOOK, WHERE_TEXT, index=0, id="a")),
            end(),
            {**end("stop"), **counted(), "choices": end("stop")["choices"]},
        ),
        calls=ONE,
        dialect="openrouter",
    ),
    Quirk("a number as the text", sse(text("a"), choice({"content": 1}), end("stop")), "a1"),
    Quirk("reasoning", sse(choice({"reasoning": "Hm."}), text("So."), end("stop")), "So.", "Hm."),
    Quirk(
        "both names of the thoughts",
        sse(choice({"reasoning": "Hm.", "reasoning_content": "Hm."}), text("So."), end("stop")),
        "So.",
        "Hm.",
    ),
    Quirk(
        "details of the thoughts",
        sse(
            choice({"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]}),
            text("So."),
            end("stop"),
        ),
        "So.",
        "Hm.",
        dialect="openrouter",
    ),
    Quirk(
        "summaries of the thoughts",
        sse(
            choice({"reasoning_details": [{"type": "reasoning.summary", "summary": "Hm."}]}),
            text("So."),
            end("stop"),
        ),
        "So.",
        "Hm.",
        dialect="openrouter",
    ),
    Quirk(
        "typed parts",
        sse(
            choice({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]}),
            choice({"content": [{"type": "text", "text": "So."}]}),
            end("stop"),
        ),
        "So.",
        "Hm.",
        dialect="mistral",
    ),
    Quirk(
        "comments between the events, lines that end with CR LF",
        b": OPENROUTER PROCESSING\n\n" + sse(text("Hi"), end("stop")).replace(b"\n", b"\r\n"),
        "Hi",
        dialect="openrouter",
    ),
    Quirk(
        "a first chunk without choices",
        sse({"choices": [], "prompt_filter_results": []}, text("Hi"), end("stop")),
        "Hi",
        dialect="azure",
    ),
    Quirk("content filter", sse(text("Hi"), end("content_filter")), "Hi", finish="SAFETY", dialect="azure"),
    Quirk(
        "events without a space, the role in each delta",
        sse(
            *(choice({"role": "assistant", "content": each}) for each in ("Hel", "lo.")), end("stop")
        ).replace(b"data: ", b"data:"),
        "Hello.",
    ),
    Quirk("a finish reason in capitals", sse(text("Hi"), end("MAX_TOKENS")), "Hi", finish="MAX_TOKENS"),
    Quirk("usage behind [DONE]", sse(text("Hi"), end("stop")) + sse(counted(), done=False), "Hi"),
    Quirk("no [DONE]", sse(text("Hi"), end("stop"), counted(), done=False), "Hi"),
    Quirk("no finish reason before [DONE]", sse(text("Hi")), "Hi"),
    Quirk(
        "a whole answer instead of a stream",
        orjson.dumps({"model": "m", "choices": [WHOLE]}),
        "Hi",
        calls=ONE,
    ),
    Quirk(
        "role first, calls with type and index, refusal null, usage at the end",
        sse(
            choice({"role": "assistant", "content": "", "refusal": None}),
            text("I look."),
            calls(piece(LOOK, "", index=0, id="call_a", type="function")),
            *(calls(piece(None, each, index=0)) for each in (WHERE_TEXT[:MIDDLE], WHERE_TEXT[MIDDLE:])),
            calls(piece(LIST, "", index=1, id="call_b", type="function")),
            calls(piece(None, AT, index=1)),
            end(),
            counted(prompt_tokens_details={"cached_tokens": 2}),
        ),
        "I look.",
        calls=TWO,
        ids=["call_a", "call_b"],
        dialect="openai",
    ),
    Quirk(
        "thoughts and text null beside each other, usage in the last choice",
        sse(
            choice({"role": "assistant", "content": None, "reasoning_content": ""}),
            *(choice({"content": None, "reasoning_content": each}) for each in ("Hm", ".")),
            choice({"content": "So.", "reasoning_content": None}),
            calls(piece(LOOK, "", index=0, id="call_0_x", type="function")),
            *(calls(piece(None, each, index=0)) for each in (WHERE_TEXT[:MIDDLE], WHERE_TEXT[MIDDLE:])),
            {**end(), "usage": counted(prompt_cache_hit_tokens=3, prompt_cache_miss_tokens=4)["usage"]},
        ),
        "So.",
        "Hm.",
        calls=ONE,
        ids=["call_0_x"],
        dialect="deepseek",
    ),
    Quirk(
        "null fields in each delta, usage in each event",
        sse(
            *(
                {**choice({"content": None, "reasoning_content": each, "tool_calls": None}), **USED}
                for each in ("Hm", ".")
            ),
            {**calls(piece(LOOK, WHERE_TEXT, index=0, id="call_s", type="function")), **USED},
            {**choice({}, "tool_calls", matched_stop=None), **USED},
        ),
        "",
        "Hm.",
        calls=ONE,
        ids=["call_s"],
        dialect="sglang",
    ),
    Quirk(
        "the id and the name in each delta of a call, statistics at the end",
        sse(
            text("I look."),
            *(
                calls({**each, "function": {**each["function"], "name": LOOK}})
                for each in halves(index=0, id="365174485", type="function")
            ),
            {**end(), "stats": {}},
            counted(),
        ),
        "I look.",
        calls=ONE,
        ids=["365174485"],
        dialect="lmstudio",
    ),
    Quirk(
        "Ollama's lines",
        lines(
            line({"thinking": "Hm."}),
            line({"content": "So."}),
            line({"tool_calls": [piece(LOOK, WHERE)]}),
            line({"tool_calls": [piece(LIST, {"at": "/"})]}),
            line({}, done=True, done_reason="stop", prompt_eval_count=7, eval_count=5),
        ),
        "So.",
        "Hm.",
        calls=TWO,
        kind="ollama",
    ),
]
