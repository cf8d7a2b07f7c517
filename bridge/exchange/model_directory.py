"""Maps a client's model name to Gemini models, and knows the capabilities of each model.

Its sources are the tables in `config/models.toml`, Google's list of models for models that the tables do
not have, and facts that the bridge learnt from refusals. All workers share these facts.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from bridge.errors import UnknownModel
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.repairs import REMEMBERED_REPAIRS, Repair
from bridge.gemini.types import GenerateRequest, JsonObject
from bridge.settings.models import ModelTable
from bridge.state.learnt_facts import LearntFactStore
from bridge.upstream.listed_models import ListedModels

log = logging.getLogger(__name__)

GONE = "gone"  #: the fact for a model that the upstream does not have


def fact_name(fact: str, home: str, model: str) -> str:
    """A fact is valid for one upstream, which its address identifies."""
    return f"{fact} {home} {model}"


class ModelDirectory:
    def __init__(self, table: ModelTable, facts: LearntFactStore, listed: ListedModels, home: str) -> None:
        self.table = table
        self._facts = facts
        self.listed = listed
        self._home = home

    # --- names ---------------------------------------------------------------------------------------

    def resolve(self, name: str) -> str:
        """The model that currently serves the name."""
        models = self._existing(self.table.meaning(name).models)
        return models[0] if models else self.table.resolve(name)

    def choices(self, name: str) -> tuple[str, ...]:
        """The models to try; the next one is used if the upstream does not have the one before. Raises
        UnknownModel for a retired model without a replacement, or if the operator wants such requests
        refused."""
        meaning = self.table.meaning(name)
        if not meaning.models:
            raise self._refusal(name, meaning.retired or name)
        return self._existing(meaning.models)

    def is_replaced(self, name: str) -> bool:
        return self.table.meaning(name).retired is not None

    def _existing(self, models: tuple[str, ...]) -> tuple[str, ...]:
        """The models that are not known as missing; all models if all are missing, since one may be back."""
        if len(models) < 2:
            return models
        return tuple(model for model in models if not self._knows(GONE, model)) or models

    def _refusal(self, name: str, model: str) -> UnknownModel:
        row = self.table.retirement(model)
        alias = "" if name.removeprefix("models/") == model else f" ({name!r} is an alias of it)"
        since = f" on {row.since}" if row is not None else ""
        advice = ", ".join(row.replacement) if row is not None else ""
        use = f"use {advice}" if advice else "GET /v1/models lists the available models"
        return UnknownModel(
            f"Google shut down {model!r}{since}{alias}; {use}. See [[lifecycle]] in config/models.toml.",
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

    # --- learnt facts --------------------------------------------------------------------------------

    def without_known_problems(self, request: GenerateRequest) -> tuple[GenerateRequest, tuple[str, ...]]:
        """The request without fields that the upstream is known to refuse, with notes and losses."""
        notes: list[str] = []
        for repair in REMEMBERED_REPAIRS:
            if self._knows(repair.fact, "" if repair.for_all_models else request.model):
                changed = repair.apply(request)
                if changed is not request:
                    notes += filter(None, (f"learnt.{repair.fact}", repair.loss))
                request = changed
        return request, tuple(notes)

    def model_gone(self, model: str, instead: str) -> None:
        self._learn(GONE, model, instead)

    def repaired(self, repair: Repair, model: str) -> None:
        self._learn(repair.fact, "" if repair.for_all_models else model)

    def _knows(self, fact: str, model: str) -> bool:
        return self._facts.knows(fact_name(fact, self._home, model))

    def _learn(self, fact: str, model: str, instead: str = "") -> None:
        """Share the fact with all workers; only the worker that learns it first logs it."""
        if self._facts.learn(fact_name(fact, self._home, model)):
            details = {"fact": fact, "model": model, "instead": instead}
            log.warning(
                "learnt from a refusal by the upstream",
                extra={name: value for name, value in details.items() if value},
            )


def _completed(capabilities: ModelCapabilities, listed: JsonObject | None) -> ModelCapabilities:
    """Completed with Google's list, for a model that the table does not have."""
    if listed is None or "inputTokenLimit" not in listed:  # some upstreams list only names
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
