"""The summaries that one request to one model can use, needs, or will need soon."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bridge.context.digests import turn_digests
from bridge.context.history import History, KnownSummary
from bridge.context.summary import next_cut, turns_to_summarise
from bridge.context.summary_task import VERSION, SummaryTask, longest_summary
from bridge.context.window import Window
from bridge.exchange.summaries import SummarySource
from bridge.gemini.summary_part import marked
from bridge.gemini.types import GenerateRequest
from bridge.settings.context import ContextSettings


@dataclass(frozen=True, slots=True)
class HistorySummaries:
    summaries: SummarySource
    settings: ContextSettings
    request: GenerateRequest
    family: str  #: of the model: another family gets summaries of its own

    def added_to(self, history: History) -> History:
        """The history with the summaries that exist for its beginnings."""
        digests = self._digests(history)
        ends = [at for at in range(1, len(history.turns)) if history.is_opening(at)]
        found = self.summaries.known([digests[end] for end in ends])
        known = [KnownSummary(end, found[digests[end]]) for end in ends if digests[end] in found]
        return replace(history, summaries=tuple(known))

    def need(self, history: History, window: Window) -> None:
        """Raises SummaryNeeded if a new summary can make the history shorter, and the request can wait."""
        if task := self._task(history, window):
            self.summaries.need(task)

    def prepare(self, history: History, window: Window, used: History) -> None:
        """Have the next summary written in the background, unless one is ready that `used` does not need."""
        newest = marked(history.summaries[-1].text) if history.summaries else None
        is_used = newest is None or any(part.data == newest for part in used.carried)
        if is_used and (task := self._task(history, window)):
            self.summaries.prepare(task)

    def _task(self, history: History, window: Window) -> SummaryTask | None:
        cut = next_cut(history, window, self.settings)
        if cut is None:
            return None
        return SummaryTask(
            self._digests(history)[cut],
            turns_to_summarise(history, cut, self.settings),
            tuple(each.name for tool in self.request.tools for each in tool.functions),
            longest_summary(window.limit),
        )

    def _digests(self, history: History) -> tuple[bytes, ...]:
        scope = (self.summaries.owner, self.family, VERSION, self.settings.first_turns)
        return turn_digests(self.request, history.turns, *scope)
