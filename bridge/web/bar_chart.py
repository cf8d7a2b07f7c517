"""Draws a bar for each value, as SVG. Its figures stand in a table beside it, so it is hidden from screen
readers. The colours come from the style of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

WIDTH, HEIGHT = 720, 180
_TOP, _BOTTOM = 28, 26
_GAP = 0.25  #: the share of a bar's place that stays free


class Bar(NamedTuple):
    label: str
    value: float
    shown: str  #: the value in words, for the tooltip


def bar_chart(bars: Sequence[Bar], highest: str) -> Markup:
    """`highest` is the largest value in words."""
    most = max((bar.value for bar in bars), default=0) or 1
    place = WIDTH / max(len(bars), 1)
    drawn = Markup("").join(_bar(bar, number * place, place, most) for number, bar in enumerate(bars))
    return Markup(
        '<svg class="chart" viewBox="0 0 {w} {h}" aria-hidden="true" focusable="false">'
        '<path class="grid" d="M0 {top}H{w}M0 {base}H{w}"/><text x="0" y="{label}">{highest}</text>'
        '{bars}<text x="0" y="{foot}">{first}</text><text class="last" x="{w}" y="{foot}">{last}</text></svg>'
    ).format(
        w=WIDTH,
        h=HEIGHT,
        top=_TOP,
        base=HEIGHT - _BOTTOM,
        label=_TOP - 5,
        foot=HEIGHT - 4,
        highest=highest,
        bars=drawn,
        first=bars[0].label if bars else "",
        last=bars[-1].label if len(bars) > 1 else "",
    )


def _bar(bar: Bar, x: float, place: float, most: float) -> Markup:
    room = HEIGHT - _TOP - _BOTTOM
    height = max(bar.value / most * room, 1.5 if bar.value else 0)
    width = place * (1 - _GAP)
    title = escape(f"{bar.label}: {bar.shown}")
    return Markup(
        f'<rect class="bar" x="{x + place * _GAP / 2:.1f}" y="{HEIGHT - _BOTTOM - height:.1f}" '
        f'width="{width:.1f}" height="{height:.1f}"><title>{title}</title></rect>'
    )
