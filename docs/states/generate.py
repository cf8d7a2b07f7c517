"""Writes one diagram per protocol beside this file, from its table of legal events, and one of the states
of a tool call: `make diagrams`."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from bridge.agents.call_states import LEGAL, START
from bridge.protocols import PROTOCOLS
from bridge.protocols.base import Protocol

FOLDER = Path(__file__).parent

PAGE = """# {name}: which events may follow which

Generated from `LEGAL` in `bridge/protocols/{name}/machine.py` by `make diagrams`; do not edit.

```mermaid
stateDiagram-v2
{lines}
```
"""


def diagram(protocol: Protocol) -> str:
    machine = protocol.machine
    arrows: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for state, row in machine.LEGAL.items():
        for event, following in row.items():
            arrows[state.name, following.name].append(event)
    lines = [f"    [*] --> {machine.START.name}"]
    lines += [f"    {before} --> {after}: {', '.join(events)}" for (before, after), events in arrows.items()]
    lines += [f"    {state.name} --> [*]" for state, row in machine.LEGAL.items() if not row]
    return PAGE.format(name=protocol.name, lines="\n".join(lines))


CALLS = FOLDER / "agent_calls.md"

CALLS_PAGE = """# agent_calls: the states of a call of a tool

Generated from `LEGAL` in `bridge/agents/call_states.py` by `make diagrams`; do not edit.

```mermaid
stateDiagram-v2
{lines}
```
"""


def calls_diagram() -> str:
    lines = [f"    [*] --> {START.value}"]
    for state, following in LEGAL.items():
        lines += [
            f"    {state.value} --> {each.value}" for each in sorted(following, key=lambda each: each.value)
        ]
        lines += [] if following else [f"    {state.value} --> [*]"]
    return CALLS_PAGE.format(lines="\n".join(lines))


def page(protocol: Protocol) -> Path:
    return FOLDER / f"{protocol.name}.md"


if __name__ == "__main__":
    for each in PROTOCOLS:
        page(each).write_text(diagram(each))
    CALLS.write_text(calls_diagram())
