"""Writes one diagram per protocol beside this file, from its table of legal events: `make diagrams`."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

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


def page(protocol: Protocol) -> Path:
    return FOLDER / f"{protocol.name}.md"


if __name__ == "__main__":
    for each in PROTOCOLS:
        page(each).write_text(diagram(each))
