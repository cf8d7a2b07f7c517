"""Learns for each model how many tokens it counts for one estimated token."""

from __future__ import annotations

import math

#: The scale of a model that has not counted yet. It is high, so that the model is asked early enough.
UNKNOWN = 1.5
#: Shorter requests say little: the fixed part of a prompt is a large share of them.
SHORTEST = 500
#: The share of a new count in the learned value.
WEIGHT = 0.2
#: Counts outside these bounds are mistakes of an upstream.
LOWEST, HIGHEST = 0.25, 4.0
#: Scales are rounded up to these parts, so that workers that learned from different requests agree.
PARTS = 16
MOST_MODELS = 256


class LearnedScales:
    """The scales of one process. Each worker learns for itself: a decision to shorten a history depends on
    the model's own count wherever the upstream can count."""

    def __init__(self) -> None:
        self._scales: dict[str, float] = {}

    def of(self, model: str, unknown: float = UNKNOWN) -> float:
        scale = self._scales.get(model, unknown)
        return math.ceil(scale * PARTS - 0.5) / PARTS

    def learn(self, model: str, estimated: int, counted: int) -> None:
        if estimated < SHORTEST or not LOWEST <= counted / estimated <= HIGHEST:
            return
        known = self._scales.get(model)
        if known is None and len(self._scales) >= MOST_MODELS:
            return
        seen = counted / estimated
        self._scales[model] = seen if known is None else known + WEIGHT * (seen - known)
