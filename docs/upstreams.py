"""Writes into docs/UPSTREAMS.md what each upstream can carry, by what it says it cannot: `make diagrams`."""

from __future__ import annotations

from pathlib import Path

from bridge.upstream import UPSTREAMS
from bridge.upstream.capabilities import Capability

PAGE = Path(__file__).parent / "UPSTREAMS.md"
BEGIN, END = "<!-- made by `make diagrams`; do not edit -->\n", "<!-- so far -->\n"
#: The demo model is a pretend Gemini in the bridge itself: it carries all there is to carry.
SHOWN = {name: kind for name, kind in UPSTREAMS.items() if name != "demo"}


def table() -> str:
    lines = [f"| | {' | '.join(SHOWN)} |", f"|---|{'---|' * len(SHOWN)}"]
    for ability in Capability:
        marks = ["–" if ability in kind.CANNOT else "yes" for kind in SHOWN.values()]
        lines.append(f"| {ability.value} | {' | '.join(marks)} |")
    for name, kind in SHOWN.items():
        lines += [f"\n{name}:" if kind.CANNOT else ""]
        lines += [f"* {ability.value}: {reason}." for ability, reason in kind.CANNOT.items()]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def page() -> str:
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
