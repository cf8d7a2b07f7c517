"""The agent that the demo model brings: it answers questions about the bridge from the bridge's documents."""

from __future__ import annotations

from bridge.settings.agents import AgentRow, AgentSettings, WorkspaceRow
from bridge.settings.source import PROJECT

_INSTRUCTION = (
    "You answer questions about Gemini Bridge, a gateway to language models. Search the documents with the "
    "tools before you answer, and name the document that you quote. Say so if the documents do not tell."
)


def demo_agents() -> AgentSettings | None:
    """None if this installation has no documents."""
    documents = PROJECT / "docs"
    if not (documents / "OPERATIONS.md").is_file():
        return None
    guide = AgentRow(
        name="guide",
        model="demo",
        description="Answers questions about Gemini Bridge from its documents",
        instruction=_INSTRUCTION,
        tools=("docs__*",),
        rounds=8,
        seconds=60.0,
    )
    workspace = WorkspaceRow(name="docs", folder=documents, description="the documents of Gemini Bridge")
    return AgentSettings((guide,), (workspace,), built_in=True)
