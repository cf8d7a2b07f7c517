"""Reads the files that most installations do not have. The code for them is imported only if they exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bridge.settings.models import ModelTable
from bridge.settings.prices import PriceTable
from bridge.settings.source import read_toml

if TYPE_CHECKING:
    from bridge.settings.agents import AgentSettings
    from bridge.settings.experiments import Experiment


def experiments_in(path: Path, models: ModelTable, prices: PriceTable) -> tuple[Experiment, ...]:
    if not (path.exists() and read_toml(path)):
        return ()
    from bridge.settings.experiments import load_experiments

    return load_experiments(path, models, prices)


def agents_in(
    folder: Path, environ: Mapping[str, str], base: Path, allowed_hosts: Sequence[str] = (), *, demo: bool
) -> AgentSettings | None:
    """The agents of the folder. The demo model brings an agent of its own, if there are none."""
    if any(folder.glob("*.toml")):
        from bridge.settings.agents import load_agents

        return load_agents(folder, environ, base, allowed_hosts)
    if not demo:
        return None
    from bridge.settings.demo_agent import demo_agents

    return demo_agents()
