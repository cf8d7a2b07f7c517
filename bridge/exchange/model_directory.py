"""Maps a client's model name to models at upstreams, and knows the capabilities of each model.

Its sources are the tables in `config/models.toml` and `config/upstreams.toml`, the upstreams' lists of
models for models that the tables do not have, and facts that the bridge learnt from refusals. All workers
share these facts.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from bridge.errors import UnknownModel
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.model_names import plain_name
from bridge.gemini.repairs import REMEMBERED_REPAIRS, Repair
from bridge.gemini.types import GenerateRequest, JsonObject
from bridge.settings.models import ModelTable, ResolvedModel
from bridge.settings.routes import Target
from bridge.state.learnt_facts import LearntFactStore
from bridge.upstream.directory import UpstreamDirectory
from bridge.upstream.listed_models import AllListedModels, ListedModels, ModelsAtHand

LONGEST_SHOWN = 100  #: characters of a model name in a message, because the client chose the name

log = logging.getLogger(__name__)

GONE = "gone"  #: the fact for a model that the upstream does not have


def fact_name(fact: str, home: str, model: str) -> str:
    """A fact is valid for one upstream, which its address identifies."""
    return f"{fact} {home} {model}"


class ModelDirectory:
    def __init__(
        self, table: ModelTable, facts: LearntFactStore, upstreams: UpstreamDirectory, lifetime: float
    ) -> None:
        """`lifetime`: the seconds for which lists of models are cached."""
        self.table = table
        self.upstreams = upstreams
        self._facts = facts
        self._lists = {name: ListedModels(upstreams, name, lifetime) for name in upstreams.rows}

    @property
    def listed(self) -> ModelsAtHand:
        """The models that clients may name."""
        lists = self._lists
        return AllListedModels(lists, self._serves) if self.upstreams.several else next(iter(lists.values()))

    def _serves(self, upstream: str, model: str) -> bool:
        return upstream in self.table.upstreams_of(model)

    # --- names ---------------------------------------------------------------------------------------

    def _meaning(self, name: str, instead: tuple[Target, ...]) -> ResolvedModel:
        """`instead`: the models of an experiment's arm, in place of those of the name."""
        return self.table.in_service(instead) if instead else self.table.meaning(name)

    def resolve(self, name: str, instead: tuple[Target, ...] = ()) -> str:
        """The model that currently serves the name."""
        targets = self._existing(self._meaning(name, instead).models)
        return targets[0].model if targets else self.table.resolve(name)

    def permission_name(self, name: str, instead: tuple[Target, ...] = ()) -> str:
        """The model that a key must allow, if it does not allow the name itself. Who may use a model may not
        use every agent that runs on it."""
        plain = plain_name(name)
        return plain if plain in self.table.agents else self.resolve(name, instead)

    def choices(self, name: str, instead: tuple[Target, ...] = ()) -> tuple[Target, ...]:
        """The models to try; the next one is used if the upstream does not have the one before. Raises
        UnknownModel for a retired model without a replacement, or if the operator wants such requests
        refused."""
        meaning = self._meaning(name, instead)
        if not meaning.models:
            raise self._refusal(name, meaning.retired or name)
        return self._existing(meaning.models)

    def is_replaced(self, name: str, instead: tuple[Target, ...] = ()) -> bool:
        return self._meaning(name, instead).retired is not None

    def routed(self, target: Target, conversation: str = "") -> list[Target]:
        """The target at each upstream that serves it, in the order in which they are tried. Raises
        UnknownModel if there is none."""
        if target.upstream:
            return [target]
        model = target.model
        names = self.table.upstreams_of(model)
        if not names:
            raise UnknownModel(
                f"No upstream serves the model {model[:LONGEST_SHOWN]!r}: GET /v1/models lists the models",
                param="model",
            )
        if len(names) == 1:
            return [Target(names[0], model)]
        targets = self.upstreams.ranked(model, names, conversation)
        return [each for each in targets if not self._knows(GONE, each)] or targets

    def _existing(self, targets: tuple[Target, ...]) -> tuple[Target, ...]:
        """The models that are not known as missing; all models if all are missing, since one may be back."""
        if len(targets) < 2:
            return targets
        return tuple(target for target in targets if not self._is_gone(target)) or targets

    def _is_gone(self, target: Target) -> bool:
        names = (target.upstream,) if target.upstream else self.table.upstreams_of(target.model)
        return all(self._knows(GONE, Target(name, target.model)) for name in names)

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

    def capabilities(self, target: Target) -> ModelCapabilities:
        """What the model can do at the target's upstream."""
        capabilities = self.table.capabilities(target.model)
        if not capabilities.window:
            listed = self._lists[target.upstream].at_hand()
            capabilities = _completed(capabilities, listed.get(target.model))
        upstream = self.upstreams[target.upstream]
        return upstream.completed(capabilities).in_realm(upstream.realm)

    # --- learnt facts --------------------------------------------------------------------------------

    def without_known_problems(
        self, request: GenerateRequest, target: Target
    ) -> tuple[GenerateRequest, tuple[str, ...]]:
        """The request without fields that the upstream is known to refuse, with notes and losses."""
        notes: list[str] = []
        for repair in REMEMBERED_REPAIRS:
            if self._knows(repair.fact, _learnt_for(repair, target)):
                changed = repair.apply(request)
                if changed is not request:
                    notes += filter(None, (f"learnt.{repair.fact}", repair.loss))
                request = changed
        return request, tuple(notes)

    def model_gone(self, missing: Target, instead: Target) -> None:
        self._learn(GONE, missing, str(instead))

    def repaired(self, repair: Repair, target: Target) -> None:
        self._learn(repair.fact, _learnt_for(repair, target))

    def _knows(self, fact: str, target: Target) -> bool:
        return self._facts.knows(self._fact_name(fact, target))

    def _fact_name(self, fact: str, target: Target) -> str:
        return fact_name(fact, self.upstreams[target.upstream].home, target.model)

    def _learn(self, fact: str, target: Target, instead: str = "") -> None:
        """Share the fact with all workers; only the worker that learns it first logs it."""
        if self._facts.learn(self._fact_name(fact, target)):
            upstream = target.upstream if self.upstreams.several else ""
            details = {"fact": fact, "upstream": upstream, "model": target.model, "instead": instead}
            log.warning(
                "learnt from a refusal by the upstream",
                extra={name: value for name, value in details.items() if value},
            )


def _learnt_for(repair: Repair, target: Target) -> Target:
    return target._replace(model="") if repair.for_all_models else target


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
