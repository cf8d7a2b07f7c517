"""A scripted Gemini with a small window: it counts tokens, and refuses a longer prompt in Google's words."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import orjson
from gunicorn_bridge import ROOT
from scripted_gemini import Asked, Reply, ScriptedGemini, call_chunk, sse, text_chunk

MODEL = "gemini-of-ours"
CHARACTERS_PER_TOKEN = 3.5
#: After so many rounds of a tool loop the model answers with text.
ROUNDS = 3


#: What is written for every summary.
SUMMARY = "## Goal\nThe user wants the places looked at.\n\n## Open tasks\nGo on with the next place."


def is_for_summary(body: dict[str, Any]) -> bool:
    """Whether the bridge asks for a summary."""
    parts = body["contents"][0]["parts"]
    return "text" in parts[0] and parts[0]["text"].startswith("<transcript>")


def counted(body: dict[str, Any]) -> int:
    """The tokens of the prompt: a share of its characters as JSON."""
    prompt = [body.get(name) for name in ("systemInstruction", "tools", "contents")]
    return round(len(orjson.dumps(prompt)) / CHARACTERS_PER_TOKEN)


class CountingGemini:
    """Answers each request with a call, or with text after some rounds."""

    def __init__(self, scripted: ScriptedGemini, window: int, *, counts: bool = True) -> None:
        self.window = window
        self.counts = counts  #: whether countTokens answers
        self.asked: list[dict[str, Any]] = []  #: the bodies of all prompts that it answered
        self.times_counted = 0
        #: The requests for summaries, and what answers them.
        self.summarised: list[Asked] = []
        self.summary: Callable[[Asked], Any] = lambda _asked: sse(text_chunk(SUMMARY, "STOP"))
        self._numbers = count(1)
        scripted.will_answer(self._answer)

    def _answer(self, asked: Asked) -> Any:
        if asked.path.endswith(":countTokens"):
            self.times_counted += 1
            if not self.counts:
                return Reply([b'{"error": {"code": 500, "message": "down", "status": "INTERNAL"}}'], 500)
            return [orjson.dumps({"totalTokens": counted(asked.body["generateContentRequest"])})]
        if is_for_summary(asked.body):
            self.summarised.append(asked)
            return self.summary(asked)
        tokens = counted(asked.body)
        if tokens > self.window:
            return Reply([orjson.dumps(_overflow(tokens, self.window))], status=400)
        self.asked.append(asked.body)
        return sse(*self._said(tokens))

    def _said(self, tokens: int) -> list[dict[str, Any]]:
        number = next(self._numbers)
        usage = {"promptTokenCount": tokens, "candidatesTokenCount": 2, "totalTokenCount": tokens + 2}
        if number % (ROUNDS + 1):
            return [call_chunk("run", {"place": f"here {number}"}, f"c{number}"), _end(usage)]
        return [text_chunk(f"Done {number}.", "STOP", **usage)]


def _end(usage: dict[str, int]) -> dict[str, Any]:
    return {"candidates": [{"finishReason": "STOP", "index": 0}], "usageMetadata": usage}


def _overflow(tokens: int, limit: int) -> dict[str, Any]:
    said = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({limit})."
    return {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": said}}


def config_with_window(folder: Path, window: int, more: str = "") -> Path:
    """A copy of the configuration in which MODEL has this window."""
    folder.mkdir(exist_ok=True)
    for file in (ROOT / "config").glob("*.toml"):
        (folder / file.name).write_bytes(file.read_bytes())
    models = folder / "models.toml"
    row = f'[[model]]\nmatch = ["{MODEL}"]\nwindow = {window}\n{more}'
    models.write_text(models.read_text().replace("[[model]]", f"{row}\n\n[[model]]", 1))
    return folder
