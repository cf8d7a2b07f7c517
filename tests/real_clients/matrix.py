"""The matrix of clients and capabilities: the results of a test run as a table in the docs."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from agents import AGENTS, Agent
from installed import HERE, installed_version, pinned

DOCUMENT = HERE.parent.parent / "docs" / "CLIENTS.md"
#: The tests of test_matrix.py; each is a column.
CAPABILITIES = {
    "test_text": "text",
    "test_tools_in_parallel": "tools in parallel",
    "test_thinking_and_signatures": "thinking and signatures",
    "test_a_refusal_is_shown": "a refusal",
    "test_a_context_overflow_is_handled": "an overflow",
    "test_a_truncated_stream_is_handled": "a cut stream",
}
YES = "yes"
_BLOCK = re.compile(r"(<!-- matrix -->\n).*(<!-- end of matrix -->)", re.DOTALL)

#: (id of the agent, name of the test) → result
Cells = dict[tuple[str, str], str]


def installed_versions(agent: Agent) -> str:
    return " / ".join(installed_version(package) or "–" for package in agent.packages)


def pinned_versions(agent: Agent) -> str:
    return " / ".join(pinned()[package] for package in agent.packages)


def table(cells: Cells) -> str:
    """Return the table in Markdown, with a row for each agent. A cell without a result was not run."""
    rows = [["client", "version", "speaks", *CAPABILITIES.values()]]
    rows.append(["---"] * len(rows[0]))
    for agent in AGENTS:
        found = [cells.get((agent.id, test), "not run") for test in CAPABILITIES]
        rows.append([agent.title, installed_versions(agent), agent.protocol, *found])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write(cells: Cells, place: Path = DOCUMENT) -> None:
    told = f"Seen on {date.today():%-d %B %Y}, with these versions:\n\n{table(cells)}"
    text, written = _BLOCK.subn(lambda found: f"{found[1]}{told}{found[2]}", place.read_text())
    assert written == 1, f"{place} has no place for the matrix"
    place.write_text(text)


def documented(place: Path = DOCUMENT) -> list[list[str]]:
    """Return the rows of the document: title, versions, protocol and a cell for each capability."""
    block = _BLOCK.search(place.read_text())
    assert block, f"{place} has no place for the matrix"
    return [line.strip("| ").split(" | ") for line in block[0].splitlines() if line.startswith("|")][2:]
