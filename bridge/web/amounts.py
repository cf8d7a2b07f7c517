"""Writes numbers and durations for people."""

from __future__ import annotations

_UNITS = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def short_number(number: float) -> str:
    """Such as 950, 1.2 k, 38 k and 1.3 M."""
    for size, unit in _UNITS:
        if number >= size * 0.9995:
            scaled = number / size
            return f"{scaled:.1f} {unit}" if scaled < 9.95 else f"{scaled:.0f} {unit}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """Such as 40 s, 12 min and 3 h 5 min, rounded up."""
    whole = int(-(-seconds // 1))
    if whole < 60:
        return f"{whole} s"
    minutes = -(-whole // 60)
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def money(cost: float) -> str:
    """Two digits, or more for an amount that would be zero otherwise."""
    if 0 < cost < 0.005:
        return f"{cost:.4f}" if cost >= 0.00005 else "< 0.0001"
    return f"{cost:,.2f}"
