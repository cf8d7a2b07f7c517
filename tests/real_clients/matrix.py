"""The matrix of clients and capabilities: what a run has found out, as a table, and its place in the docs."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from agents import AGENTS
from installed import HERE, PLATFORM, installed_version, pinned

DOCUMENT = HERE.parent.parent / "docs" / "CLIENTS.md"
#: The tests of test_matrix.py, each a column.
CAPABILITIES = {
    "test_text": "text",
    "test_tools_in_parallel": "tools in parallel",
    "test_thinking_and_signatures": "thinking and signatures",
    "test_a_refusal_is_told": "a refusal",
    "test_an_overflow_ends_well": "an overflow",
    "test_a_cut_stream_ends_well": "a cut stream",
}
YES = "yes"
_BLOCK = re.compile(r"(<!-- matrix -->\n).*(<!-- end of matrix -->)", re.DOTALL)

#: (id of the agent, name of the test) → what is told of it
Cells = dict[tuple[str, str], str]


def package_of(agent_id: str) -> str:
    (package,) = [agent.package for agent in AGENTS if agent.id == agent_id]
    return package.format(platform=PLATFORM)


def table(cells: Cells) -> str:
    """In Markdown, a row for each agent. A cell without a result was not run."""
    rows = [["client", "version", "speaks", *CAPABILITIES.values()]]
    rows.append(["---"] * len(rows[0]))
    for agent in AGENTS:
        version = installed_version(package_of(agent.id)) or "–"
        found = [cells.get((agent.id, test), "not run") for test in CAPABILITIES]
        rows.append([agent.title, version, agent.protocol, *found])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write(cells: Cells, place: Path = DOCUMENT) -> None:
    told = f"Seen on {date.today():%-d %B %Y}, with these versions:\n\n{table(cells)}"
    text = place.read_text()
    assert _BLOCK.search(text), f"{place} has no place for the matrix"
    place.write_text(_BLOCK.sub(lambda found: f"{found[1]}{told}{found[2]}", text))


def documented_versions(place: Path = DOCUMENT) -> list[tuple[str, str, str]]:
    """Title, version and protocol of each row in the document."""
    block = _BLOCK.search(place.read_text())
    assert block
    rows = [line.strip("| \n").split(" | ") for line in block[0].splitlines() if line.startswith("|")]
    return [(row[0], row[1], row[2]) for row in rows[2:]]


def pinned_versions() -> list[tuple[str, str, str]]:
    versions = pinned()
    return [(agent.title, versions[package_of(agent.id)], agent.protocol) for agent in AGENTS]
