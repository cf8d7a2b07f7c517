"""The failure message for a stream that differs from the recorded one: the first different event."""

from __future__ import annotations

from itertools import zip_longest

BEFORE, AFTER = 3, 1  #: events of context before and after
SHORT = 120  #: characters shown of a context event
AROUND = 20  #: characters shown before and after the first different one
NOTHING = "(the stream is over)"


def events_in(stream: str) -> list[str]:
    """Split at blank lines only, so that streams with equal events are equal."""
    return stream.split("\n\n")


def first_difference(recorded: str, sent: str, *, name: str, label: str) -> str | None:
    """Return None if the streams are equal. `label` is the protocol and caller of the transcript's name."""
    before, now = events_in(recorded), events_in(sent)
    pairs = list(zip_longest(before, now, fillvalue=NOTHING))
    at = next((index for index, (old, new) in enumerate(pairs) if old != new), None)
    if at is None:
        return None
    old, new = pairs[at]
    lines = [
        f"{name}, {label}: event {at} differs ({len(before) - 1} events are recorded, {len(now) - 1} came)",
        *(f"    {number:>4}  {_shown(before[number])}" for number in range(max(0, at - BEFORE), at)),
        f"  - {at:>4}  {_one_line(old)}",
        f"  + {at:>4}  {_one_line(new)}",
        *_following("-", before, at),
        *_following("+", now, at),
        f"the first different character: {_character(old, new)}",
        f"replay it: {command(name, label)}",
    ]
    return "\n".join(lines)


def command(name: str, label: str) -> str:
    return f"make replay NAME={name} PROTOCOL={label}"


def shortened(text: str, most: int = SHORT) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more)"


def _following(sign: str, events: list[str], at: int) -> list[str]:
    following = range(at + 1, min(at + 1 + AFTER, len(events)))
    return [f"  {sign} {number:>4}  {_shown(events[number])}" for number in following if events[number]]


def _one_line(event: str) -> str:
    return event.replace("\n", " ⏎ ") or "(nothing)"


def _shown(event: str) -> str:
    return shortened(_one_line(event))


def _character(old: str, new: str) -> str:
    at = next((index for index, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
    at = min(len(old), len(new)) if at is None else at
    window = slice(max(0, at - AROUND), at + AROUND)
    return f"{at}, {old[window]!r} became {new[window]!r}"
