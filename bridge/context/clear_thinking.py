"""Drops the thoughts of all answers but the newest, if the client asks for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from bridge.context.base import ClientEdit, Edited
from bridge.context.history import History, history_of
from bridge.context.old_thoughts import without_thoughts
from bridge.gemini.context_steps import CLEAR_THINKING
from bridge.gemini.types import MODEL, Content, GenerateRequest, JsonObject
from bridge.settings.context import ContextSettings

KEPT = 1  #: answers that keep their thoughts, if the client names no number


class ClearThinking(ClientEdit):
    """An answer is all that the model said to one message of the user, with its tool loop. The model checks
    signatures only in the running loop, which belongs to the newest answer and is never changed."""

    name = CLEAR_THINKING
    kept = KEPT

    @classmethod
    def wished(cls, settings: ContextSettings, options: JsonObject) -> Self:
        edit = cls(settings)
        edit.kept = options.get("keep", KEPT)
        return edit

    def apply(self, request: GenerateRequest) -> Edited:
        if not any(part.thought for content in request.contents for part in content.parts):
            return Edited(request)
        history, notes = history_of(request)
        changed: dict[int, Content] = {}
        answers = [self._cleared(history, answer) for answer in _answers_with_thoughts(history)[: -self.kept]]
        for cleared in answers:
            changed.update(cleared)
        if not changed:
            return Edited(request)
        shorter = replace(request, contents=history.with_turns(changed).turns)
        return Edited(shorter, sum(map(bool, answers)), (*notes, f"context.{self.name}"))

    def _cleared(self, history: History, answer: list[int]) -> dict[int, Content]:
        """A turn of thoughts alone stays: without it, two turns of the user would become one."""
        turns = {position: history.turns[position] for position in answer}
        return {
            position: without_thoughts(turn)
            for position, turn in turns.items()
            if not all(part.thought for part in turn.parts)
        }


def _answers_with_thoughts(history: History) -> list[list[int]]:
    """The positions of the turns with thoughts, for each answer that has any."""
    answers: list[list[int]] = [[]]
    for position, turn in enumerate(history.turns):
        if history.is_opening(position):
            answers.append([])
        elif turn.role == MODEL and any(part.thought for part in turn.parts):
            answers[-1].append(position)
    return [answer for answer in answers if answer]
