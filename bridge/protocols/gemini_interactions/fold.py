"""Builds the steps of an answer from its events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import orjson

from bridge.gemini.types import JsonObject
from bridge.protocols.base import Event

STEP_START, STEP_DELTA, STEP_STOP = "step.start", "step.delta", "step.stop"


class StepFold:
    """`add` every event. `steps` are then the steps so far; the last one may be incomplete."""

    def __init__(self) -> None:
        self._steps: list[dict[str, Any]] = []
        self._pieces: list[str] = []
        self._contents: list[JsonObject] = []
        self._annotations: list[JsonObject] = []

    def add(self, event: Event) -> None:
        if event.type == STEP_DELTA:
            delta = event.data["delta"]
            self._DELTAS.get(delta["type"], StepFold._update)(self, delta)
        elif event.type == STEP_START:
            self._steps.append(dict(event.data["step"]))
        elif event.type == STEP_STOP:
            self._finish_step()

    def add_text(self, text: str) -> None:
        """Add a text delta."""
        self._pieces.append(text)

    @property
    def steps(self) -> list[dict[str, Any]]:
        self._finish_step()
        return self._steps

    def _text(self, delta: JsonObject) -> None:
        self.add_text(delta["text"])

    def _summary(self, delta: JsonObject) -> None:
        self._pieces.append(delta["content"]["text"])

    def _arguments(self, delta: JsonObject) -> None:
        self._pieces.append(delta["arguments"])

    def _content(self, delta: JsonObject) -> None:
        self._contents.append(delta)

    def _annotate(self, delta: JsonObject) -> None:
        self._annotations.extend(delta["annotations"])

    def _update(self, delta: JsonObject) -> None:
        self._steps[-1].update({name: value for name, value in delta.items() if name != "type"})

    def _finish_step(self) -> None:
        if not (self._pieces or self._contents):
            return
        step, text = self._steps[-1], "".join(self._pieces)
        if step["type"] == "function_call":
            step["arguments"] = orjson.loads(text)
        elif step["type"] == "thought":
            step["summary"] = [{"type": "text", "text": text}]
        else:
            noted = {"annotations": self._annotations} if self._annotations else {}
            said = [{"type": "text", "text": text, **noted}] if text else []
            step["content"] = [*said, *self._contents]
        self._pieces, self._contents, self._annotations = [], [], []

    def _sign(self, delta: JsonObject) -> None:
        self._steps[-1]["signature"] = delta["signature"]

    #: A class attribute: in each object it would be a reference cycle.
    _DELTAS: ClassVar[Mapping[str, Callable[[StepFold, JsonObject], None]]] = {
        "text": _text,
        "thought_summary": _summary,
        "thought_signature": _sign,
        "arguments_delta": _arguments,
        "text_annotation_delta": _annotate,
        "image": _content,
        "audio": _content,
        "video": _content,
        "document": _content,
    }
