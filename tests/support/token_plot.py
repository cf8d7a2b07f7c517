"""Draws the tokens of each request of some conversations, one panel for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

WIDTH, HEIGHT, MARGIN, HEAD = 320, 120, 44, 28
COLUMNS = 2
STYLE = """  <style>
    text { font: 11px sans-serif; fill: #57606a; }
    .title { font-weight: bold; }
    .off { stroke: #cf222e; } .all { stroke: #0969da; } .window { stroke: #8c959f; stroke-dasharray: 4 3; }
    polyline, line { fill: none; stroke-width: 1.5; }
    @media (prefers-color-scheme: dark) {
      text { fill: #9198a1; } .off { stroke: #f85149; } .all { stroke: #4493f8; }
    }
  </style>"""


class Series(NamedTuple):
    """The tokens of each request, with `compress` off and on."""

    off: Sequence[int]
    on: Sequence[int]


def drawn(series: Mapping[str, Series], window: int, requests: int) -> str:
    rows = -(-len(series) // COLUMNS)
    width, height = COLUMNS * (WIDTH + MARGIN) + MARGIN, rows * (HEIGHT + MARGIN) + HEAD
    panels = [
        line
        for place, (name, each) in enumerate(series.items())
        for line in _panel(name, each, place, window, requests)
    ]
    said = (
        f'Red: compress = "off", until the model refuses. Blue: "all". Dashed: the window, {window} tokens.'
    )
    legend = f'  <text x="{MARGIN}" y="14">Tokens of each request. {said}</text>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
    return "\n".join([head, STYLE, legend, *panels, "</svg>", ""])


def _panel(name: str, series: Series, place: int, window: int, requests: int) -> Iterator[str]:
    left = MARGIN + place % COLUMNS * (WIDTH + MARGIN)
    top = HEAD + place // COLUMNS * (HEIGHT + MARGIN)
    highest = window * 1.1

    def points(tokens: Sequence[int]) -> str:
        places = (
            (left + round(number * WIDTH / requests), top + HEIGHT - round(value * HEIGHT / highest))
            for number, value in enumerate(tokens, 1)
        )
        return " ".join(f"{x},{y}" for x, y in places)

    edge = top + HEIGHT - round(window * HEIGHT / highest)
    yield f'  <text class="title" x="{left}" y="{top + 8}">{name}</text>'
    yield f'  <line class="window" x1="{left}" y1="{edge}" x2="{left + WIDTH}" y2="{edge}"/>'
    yield f'  <polyline class="all" points="{points(series.on)}"/>'
    yield f'  <polyline class="off" points="{points(series.off)}"/>'
    yield f'  <text x="{left}" y="{top + HEIGHT + 14}">1</text>'
    yield f'  <text x="{left + WIDTH - 60}" y="{top + HEIGHT + 14}">request {requests}</text>'
