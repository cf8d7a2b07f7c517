"""`python -m bench.context_fitting`: what the context steps cost a request that is far from the window."""

from __future__ import annotations

import time
from collections.abc import Callable

from bridge.exchange.context_fitting import ContextFitting
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.types import (
    MODEL,
    USER,
    Content,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    Part,
    Tool,
)
from bridge.observe.record import Record
from bridge.settings.context import ContextSettings

TURNS = 300
TOOLS = 20
WINDOW = ModelCapabilities(window=1_048_576)
TIMES, ROUNDS = 200, 7


def request() -> GenerateRequest:
    """A tool loop of an agent: a call with its result in each round, and a text in each fourth."""
    turns = [Content(USER, (Part("Please look at the files. " * 8),))]
    for number in range(TURNS // 2):
        if number % 4 == 3:
            turns.append(
                Content(MODEL, (Part("A thought. " * 20, thought=True), Part("It was found. " * 20)))
            )
            turns.append(Content(USER, (Part("And the next one? " * 10),)))
            continue
        name = f"call_{number}"
        turns.append(Content(MODEL, (Part(FunctionCall("read", {"path": "src/reader.py"}, name)),)))
        result = FunctionResponse("read", {"result": "a line of output; " * 120}, name)
        turns.append(Content(USER, (Part(result),)))
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "where " * 10}}}
    tools = (
        FunctionDeclaration(f"tool_{number}", "Does something. " * 20, schema) for number in range(TOOLS)
    )
    return GenerateRequest(
        "m", tuple(turns), Content(USER, (Part("You are an agent. " * 400),)), (Tool(tuple(tools)),)
    )


def microseconds(call: Callable[[], object]) -> float:
    """The CPU time of one call in this thread: the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(TIMES):
            call()
        best = min(best, time.thread_time() - began)
    return best / TIMES * 1e6


def never(_request: GenerateRequest) -> int:
    raise AssertionError("a request far from the window is not counted")


def main() -> None:
    asked, record = request(), Record("bench", "POST", "/")
    for compress in ("off", "all"):
        fitting = ContextFitting(ContextSettings(compress=compress, editor_context="off"))

        def fit(fitting: ContextFitting = fitting) -> GenerateRequest:
            return fitting.fitted(fitting.edited(asked, "m", record), "m", WINDOW, never, record)

        print(
            f'compress = "{compress}": {microseconds(fit):.0f} µs of CPU time for {len(asked.contents)} turns'
        )


if __name__ == "__main__":
    main()
