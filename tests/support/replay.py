"""Prints how a recorded stream becomes each protocol's events: `make replay NAME=plain_text`.

It shows each chunk of the upstream, the neutral steps that the Turn makes of it, and the events that each
protocol makes of these steps. Protocols that configure the Turn differently, for example by the number of
candidates, get different steps; protocols with the same steps share one list.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import count
from typing import Any, NamedTuple

import orjson
from first_difference import shortened
from transcripts import FOLDER, NAMES, VARIANTS, TranscriptVariant, chunks_of, json_lines

from bridge.gemini.turn import Step, Turn, TurnEnded, TurnFailed
from bridge.protocols.base import Event

WIDTH = 200  #: characters of a line, unless --full is given
END = "end"


class Stage(NamedTuple):
    """The steps and events made of one chunk, or of the end of the stream."""

    cause: str
    steps: list[str]
    events: list[str]


class Unknown(Exception):
    """The requested transcript or protocol does not exist."""


def stages(name: str, told: TranscriptVariant) -> list[Stage]:
    run = told.run()
    machine = run.machine
    turn = Turn(machine.MAX_CANDIDATES, any_finish_reason_ends=machine.ANY_FINISH_REASON_ENDS)
    passed = []
    for number, chunk in enumerate(chunks_of(name)):
        fitted = run.adapter.feed(chunk)
        passed.append(_stage(f"chunk {number}", turn.feed(fitted), machine.feed([fitted])))
    return [*passed, _stage(END, turn.finish(), machine.finish())]


def _stage(cause: str, steps: Iterable[Step], events: Iterable[Event]) -> Stage:
    return Stage(cause, [_step(step) for step in steps], [_event(event) for event in events])


def _step(step: Step) -> str:
    if isinstance(step, TurnFailed):
        return f"TurnFailed {type(step.error).__name__}: {step.error}"
    if isinstance(step, TurnEnded):
        return f"TurnEnded {', '.join(_ending(each) for each in step.endings)}, usage {_json(step.usage.raw)}"
    told = (f"{name}={_value(value)}" for name, value in step._asdict().items())
    return " ".join([type(step).__name__, *told])


def _ending(ending: Any) -> str:
    called = " with calls" if ending.called else ""
    return f"candidate {ending.candidate} {ending.outcome.name}{called}"


def _value(value: Any) -> str:
    return str(getattr(value, "name", None) or repr(value))


def _event(event: Event) -> str:
    return f"{event.type}  {_json(event.data)}"


def _json(value: Any) -> str:
    return orjson.dumps(value, default=str).decode()


def replayed(name: str, protocol: str = "", width: int = WIDTH) -> str:
    """Return the page. `protocol` is a name, or a name with a caller; without it, all are shown."""
    told = {each.label: stages(_known(name), each) for each in _chosen(protocol)}
    lines = [f"{name}: {(FOLDER / name / 'why.md').read_text().strip()}", "", "UPSTREAM"]
    lines += [f"  chunk {number:<3} {_json(line)}" for number, line in enumerate(json_lines(name))]
    for labels, passed in _by_steps(told):
        whose = "" if len(labels) == len(told) else f" for {', '.join(labels)}"
        lines += ["", f"STEPS{whose}", *_listed((stage.cause, stage.steps) for stage in passed)]
    for label, passed in told.items():
        lines += ["", f"EVENTS {label}", *_listed(_numbered(passed))]
    return "\n".join(shortened(line, width) for line in lines)


def _by_steps(told: dict[str, list[Stage]]) -> Iterator[tuple[list[str], list[Stage]]]:
    groups: dict[str, list[str]] = {}
    for label, passed in told.items():
        groups.setdefault(repr([stage.steps for stage in passed]), []).append(label)
    for labels in groups.values():
        yield labels, told[labels[0]]


def _numbered(passed: list[Stage]) -> Iterator[tuple[str, list[str]]]:
    """Number the events of each stage as a failing test does."""
    numbers = count()
    for stage in passed:
        yield stage.cause, [f"{next(numbers):>3} {event}" for event in stage.events]


def _listed(caused: Iterable[tuple[str, list[str]]]) -> Iterator[str]:
    """List the events with their cause, which is shown once."""
    for cause, results in caused:
        for number, result in enumerate(results or ["(nothing)"]):
            yield f"  {cause if number == 0 else '':<9} {result}"


def _known(name: str) -> str:
    if name in NAMES:
        return name
    near = get_close_matches(name, NAMES, n=5, cutoff=0.4)
    offered = f"The nearest: {', '.join(near)}" if near else f"There are: {', '.join(NAMES)}"
    raise Unknown(f"No transcript is called {name!r}. {offered}")


def _chosen(protocol: str) -> list[TranscriptVariant]:
    chosen = [each for each in VARIANTS if protocol in ("", each.protocol.name, each.label)]
    if chosen:
        return chosen
    raise Unknown(
        f"No protocol is called {protocol!r}. There are: {', '.join(each.label for each in VARIANTS)}"
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Show how a recorded stream becomes each protocol's events.")
    parser.add_argument("name", help="a folder in tests/transcripts")
    parser.add_argument("--protocol", default="", help="only this one, say openai_responses.codex")
    parser.add_argument("--full", action="store_true", help="do not shorten long lines")
    asked = parser.parse_args(arguments)
    try:
        print(replayed(asked.name, asked.protocol, sys.maxsize if asked.full else WIDTH))
    except Unknown as unknown:
        print(unknown, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
