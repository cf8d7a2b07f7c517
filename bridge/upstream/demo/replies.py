"""The demo model's text answers, and the prompts that select them."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Sequence

import orjson

from bridge.gemini.types import FileData, FunctionResponse, InlineData
from bridge.upstream.demo import documents
from bridge.upstream.demo.ask import DemoRequest
from bridge.upstream.demo.faults import FAULTS

LONGEST_QUOTE = 80
LONGEST_RESULT = 200

NO_TOOLS = (
    "This variant of the demo model calls the tools that a request declares, and this request declares none. "
    "Add at least one function to `tools`, and I will call it with arguments that satisfy its schema."
)

_GREETINGS = (
    "Hello! I am the demo model inside Gemini Bridge, and everything between us works: your client "
    "reached the bridge, and this answer is streaming back. What would you like to try?",
    "Hi there! You are talking to the embedded demo model of Gemini Bridge. Ask me for some code, a list "
    "or a poem, or declare a tool and tell me to use it.",
    "Hello, and welcome to Gemini Bridge. I am its offline demo model: quick, polite and not very bright. "
    "Ask me what I can do.",
)

_OPENINGS = (
    "You asked: “{quote}”. That is a fair question for a real model.",
    "Thank you for “{quote}”. I read it with care, as far as a demo model can.",
    "“{quote}” is what reached me, word for word, through Gemini Bridge.",
)
_CLOSINGS = (
    "I am the embedded demo model, so I cannot think it through, but the whole path from your client to the "
    "upstream and back is working. Set GEMINI_API_KEY and Gemini itself will answer.",
    "This answer comes from the offline demo model, which needs no key. It streams, calls tools and fails "
    "on demand just as Gemini does. Ask “what can you do?” to see the list.",
    "I only know a few tricks: code, lists, tables, poems, stories and tool calls. For a real answer, set "
    "GEMINI_API_KEY and ask again.",
)

_POEMS = (
    "A bridge of bytes, a narrow span,\nthe tokens cross it as they can;\n"
    "some come early, some come late,\nand each one finds an open gate.\n\n"
    "No word is lost, no line is torn,\na stream at dusk, a stream at dawn.",
    "Small words travel, one by one,\nover the water, into the sun.\nNobody hurries, nobody waits:\n"
    "the river has no closing gates.",
)
_STORIES = (
    "Once there was a small model that lived inside a gateway. It had no cloud and no key, only a drawer "
    "full of sentences. Travellers came to test their ships before the long voyage, and the small model "
    "played the storm for them: it stalled, it cut its words short, it spoke in bursts. When the ships "
    "no longer sank, the travellers thanked it and sailed on to the real sea.",
    "The lighthouse keeper counted every token that passed. One night none came. He did not shut the "
    "lamp; he waited, and each ten seconds he blinked it once, so that nobody would think the light was "
    "gone. At dawn the tokens came back, all of them, in order.",
)
_LIST = (
    "Here are five things worth trying with me:\n\n"
    "1. Ask for code in Python, JavaScript or Bash.\n"
    "2. Declare a tool and say “use a tool”.\n"
    "3. Request JSON with a schema.\n"
    "4. Send an image and see what I make of it.\n"
    "5. Pick the model `demo-cut` and watch how your client copes."
)
_TABLE = (
    "| Protocol | Path | Typical client |\n"
    "|---|---|---|\n"
    "| OpenAI Chat Completions | `/v1/chat/completions` | editors, SDKs |\n"
    "| OpenAI Responses | `/v1/responses` | Codex |\n"
    "| Anthropic Messages | `/v1/messages` | Claude Code |"
)

SNIPPETS = {
    "python": (
        "def fibonacci(count):\n    a, b = 0, 1\n    for _ in range(count):\n        yield a\n"
        "        a, b = b, a + b\n\n\nprint(list(fibonacci(10)))",
        "from collections import Counter\n\n\ndef most_common_words(text, limit=3):\n"
        "    return Counter(text.lower().split()).most_common(limit)\n\n\n"
        'print(most_common_words("the stream, the bridge and the sea"))',
    ),
    "javascript": (
        "function groupBy(items, key) {\n  const groups = {};\n  for (const item of items) {\n"
        "    (groups[key(item)] ??= []).push(item);\n  }\n  return groups;\n}\n\n"
        'console.log(groupBy(["ant", "bee", "cow", "bear"], (word) => word[0]));',
        "const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));\n\n"
        "async function countdown(from) {\n  for (let n = from; n > 0; n--) {\n    console.log(n);\n"
        "    await sleep(100);\n  }\n}\n\ncountdown(3);",
    ),
    "bash": (
        '#!/usr/bin/env bash\nset -euo pipefail\n\nfor file in *.txt; do\n  [ -e "$file" ] || continue\n'
        '  printf \'%6d  %s\\n\' "$(wc -l < "$file")" "$file"\ndone',
        '#!/usr/bin/env bash\nset -euo pipefail\n\nname="${1:-world}"\necho "Hello, ${name}!"',
    ),
}
_LANGUAGES = {
    "javascript": re.compile(r"\b(?:js|javascript|typescript|node)\b", re.IGNORECASE),
    "bash": re.compile(r"\b(?:bash|shell|sh|zsh)\b", re.IGNORECASE),
    "python": re.compile(r"", re.IGNORECASE),  # the default
}


def reply(ask: DemoRequest, number: int) -> str:
    """The text answer of candidate `number`."""
    if ask.dictated is not None:
        return ask.dictated
    if ask.results:
        return documents.answer(ask) or _report(ask.results)
    answer = next(say for pattern, say in _TOPICS if pattern.search(ask.gist))
    return "".join((*map(_received, ask.media), answer(ask, number)))


def _pick(bank: Sequence[str], ask: DemoRequest, number: int) -> str:
    return bank[(ask.digest[0] + number) % len(bank)]


def _greet(ask: DemoRequest, number: int) -> str:
    return _pick(_GREETINGS, ask, number)


def _introduce_itself(ask: DemoRequest, number: int) -> str:
    names = ", ".join(f"`demo-{name}`" for name in FAULTS)
    return (
        "I am the demo model embedded in Gemini Bridge, a gateway that serves the OpenAI and Anthropic "
        "protocols on Google Gemini. I run offline inside the bridge and answer when no Gemini key is "
        "set. Set GEMINI_API_KEY to talk to the real one.\n\nI stream text, write small pieces of code, "
        "lists, tables, poems and stories, repeat what you dictate (`echo: …`), produce JSON for a "
        "schema, notice images and files, think aloud when asked to, and call the tools you declare when "
        "you tell me to use them.\n\nI can also misbehave in the ways Gemini does, which helps to test a "
        "client. Choose a variant as the model, "
        f"or write its name in the prompt, as in `[demo:slow]`: {names}."
    )


def _write_code(ask: DemoRequest, number: int) -> str:
    language = next(name for name, pattern in _LANGUAGES.items() if pattern.search(ask.gist))
    snippet = _pick(SNIPPETS[language], ask, number)
    return (
        f"Here is a small, working example:\n\n```{language}\n{snippet}\n```\n\n"
        "It comes from the demo model's own drawer; with a Gemini key you would get code made to measure."
    )


def _list(ask: DemoRequest, number: int) -> str:
    return _LIST


def _tabulate(ask: DemoRequest, number: int) -> str:
    return f"Here is a table of what the bridge serves:\n\n{_TABLE}"


def _recite(ask: DemoRequest, number: int) -> str:
    return _pick(_POEMS, ask, number)


def _tell_story(ask: DemoRequest, number: int) -> str:
    return _pick(_STORIES, ask, number)


def _make_conversation(ask: DemoRequest, number: int) -> str:
    if not ask.question:
        return _pick(_CLOSINGS, ask, number)
    opening = _pick(_OPENINGS, ask, number).format(
        quote=_shortened(" ".join(ask.question.split()), LONGEST_QUOTE)
    )
    return f"{opening} {_pick(_CLOSINGS, ask, number)}"


def _topic(words: str) -> re.Pattern[str]:
    return re.compile(words, re.IGNORECASE)


#: The first pattern that matches decides; the last pattern always matches.
_TOPICS: tuple[tuple[re.Pattern[str], Callable[[DemoRequest, int], str]], ...] = (
    (
        _topic(
            r"\b(?:who|what) (?:exactly )?are you\b|\bwhat can you do\b|\byour name\b|\babout yourself\b"
            r"|\b(?:which|what) model\b|\bwhat is (?:this|gemini bridge)\b"
            r"|^\W*(?:can you |please )?help(?: me)?\W*$"
        ),
        _introduce_itself,
    ),
    (_topic(r"\b(?:code|function|script|snippet|program|python|javascript|typescript|bash)\b"), _write_code),
    (_topic(r"\btable\b"), _tabulate),
    (_topic(r"\b(?:poem|haiku|verse|rhyme)\b"), _recite),
    (_topic(r"\b(?:story|tale)\b"), _tell_story),
    (_topic(r"\b(?:a list|list (?:of|some|five|the)|bullet points?)\b"), _list),
    (_topic(r"^\W*(?:hi|hello|hey|hallo|hola|bonjour|good (?:morning|afternoon|evening))\b.{0,30}$"), _greet),
    (_topic(r""), _make_conversation),
)


def _received(medium: InlineData | FileData) -> str:
    if isinstance(medium, FileData):
        return f"I received a file at {medium.uri} ({medium.mime_type or 'of unknown type'}). "
    return f"I received {_kind(medium.mime_type)} of {_bytes(medium.data)} bytes ({medium.mime_type}). "


def _kind(mime_type: str) -> str:
    family = mime_type.partition("/")[0]
    kinds = {"application/pdf": "a PDF", "image": "an image", "audio": "an audio clip", "video": "a video"}
    return kinds.get(mime_type) or kinds.get(family, "a file")


def _bytes(data: str) -> int:
    try:
        return len(b64decode(data))
    except (NotBase64, ValueError):
        return len(data)


def _report(results: Sequence[FunctionResponse]) -> str:
    lines = [f"`{result.name}` returned {_shortened(_text(result), LONGEST_RESULT)}" for result in results]
    if len(lines) == 1:
        return f"The tool has answered: {lines[0]}"
    return "The tools have answered:\n\n" + "\n".join(f"- {line}" for line in lines)


def _text(result: FunctionResponse) -> str:
    return orjson.dumps(result.response, default=dict).decode()


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest].rstrip() + "…"
