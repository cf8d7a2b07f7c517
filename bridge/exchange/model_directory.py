"""Which models serve a client's name, and what each of them can do: the tables, and what was learnt since.

The tables are `config/models.toml`. What Google lists says more about models newer than the tables; what
Google refuses is remembered by all workers.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from bridge.errors import UnknownModel
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.repairs import REMEMBERED_REPAIRS, Repair
from bridge.gemini.types import GenerateRequest, JsonObject
from bridge.settings.models import ModelTable
from bridge.state.learnt_facts import LearntFacts
from bridge.upstream.listed_models import ListedModels

log = logging.getLogger(__name__)

GONE = "gone"  #: the fact that the upstream does not have a model


def fact_name(fact: str, home: str, model: str) -> str:
    """Facts hold for one upstream, known by its address."""
    return f"{fact} {home} {model}"


class ModelDirectory:
    def __init__(self, table: ModelTable, facts: LearntFacts, listed: ListedModels, home: str) -> None:
        self.table = table
        self._facts = facts
        self.listed = listed
        self._home = home

    # --- names ---------------------------------------------------------------------------------------

    def resolve(self, name: str) -> str:
        """The model that serves the name now."""
        models = self._existing(self.table.meaning(name).models)
        return models[0] if models else self.table.resolve(name)

    def choices(self, name: str) -> tuple[str, ...]:
        """The models to ask, in this order, each if the one before does not exist. Raises UnknownModel where
        the operator wants requests for retired models refused, or nothing replaces the model."""
        meaning = self.table.meaning(name)
        if not meaning.models:
            raise self._refusal(name, meaning.retired or name)
        return self._existing(meaning.models)

    def is_replaced(self, name: str) -> bool:
        return self.table.meaning(name).retired is not None

    def _existing(self, models: tuple[str, ...]) -> tuple[str, ...]:
        """Those not known to be gone; all, if all are: one of them may have come back."""
        if len(models) < 2:
            return models
        return tuple(model for model in models if not self._knows(GONE, model)) or models

    def _refusal(self, name: str, model: str) -> UnknownModel:
        row = self.table.retirement(model)
        served = "" if name.removeprefix("models/") == model else f" ({name!r} means it here)"
        since = f" on {row.since}" if row is not None else ""
        advice = ", ".join(row.replacement) if row is not None else ""
        use = f"use {advice}" if advice else "GET /v1/models lists what there is"
        return UnknownModel(
            f"Google shut down {model!r}{since}{served}; {use}. See [[lifecycle]] in config/models.toml.",
            param="model",
        )

    # --- what a model can do -------------------------------------------------------------------------

    def capabilities(self, model: str) -> ModelCapabilities:
        capabilities = self.table.capabilities(model)
        return (
            capabilities
            if capabilities.window
            else _completed(capabilities, self.listed.at_hand().get(model))
        )

    # --- what was learnt -----------------------------------------------------------------------------

    def mended(self, request: GenerateRequest) -> tuple[GenerateRequest, tuple[str, ...]]:
        """The request without what the upstream is known to refuse, and notes on what was left out."""
        notes = []
        for repair in REMEMBERED_REPAIRS:
            if self._knows(repair.fact, "" if repair.for_all_models else request.model):
                changed = repair.apply(request)
                if changed is not request:
                    notes.append(f"learnt.{repair.fact}")
                request = changed
        return request, tuple(notes)

    def model_gone(self, model: str, instead: str) -> None:
        self._learn(GONE, model, instead)

    def repaired(self, repair: Repair, model: str) -> None:
        self._learn(repair.fact, "" if repair.for_all_models else model)

    def _knows(self, fact: str, model: str) -> bool:
        return self._facts.knows(fact_name(fact, self._home, model))

    def _learn(self, fact: str, model: str, instead: str = "") -> None:
        """Remember it in all workers. The worker that learns it first writes the one line in the log."""
        if self._facts.learn(fact_name(fact, self._home, model)):
            told = {"fact": fact, "model": model, "instead": instead}
            log.warning(
                "learnt from a refusal by the upstream",
                extra={name: value for name, value in told.items() if value},
            )


def _completed(capabilities: ModelCapabilities, listed: JsonObject | None) -> ModelCapabilities:
    """With what Google's list says of a model that the table does not know."""
    if listed is None or "inputTokenLimit" not in listed:  # some upstreams list names only
        return capabilities
    thinks = listed.get("thinking") is True
    return replace(
        capabilities,
        window=_tokens(listed.get("inputTokenLimit")),
        output_limit=capabilities.output_limit or _tokens(listed.get("outputTokenLimit")),
        thinking_levels=capabilities.thinking_levels if thinks else (),
    )


def _tokens(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
