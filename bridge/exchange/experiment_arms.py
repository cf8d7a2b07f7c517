"""Assigns requests to the arms of experiments. This module is imported only if there is an experiment.

A hash of the experiment's name and of the unit, a conversation or a key, decides. So every worker and every
machine chooses the same arm, without a store. A request that some arm cannot serve is marked in every arm,
because leaving out only those of one arm would make the arms differ.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import accumulate
from typing import NamedTuple

from bridge.errors import BridgeError, NotAllowed
from bridge.exchange.model_choices import NO_ARM, EnteredArm, permitted_choices
from bridge.exchange.model_directory import ModelDirectory
from bridge.exchange.shadow_arms import ShadowRunner
from bridge.gemini.conversation import Session, session_conversation
from bridge.gemini.google_tools import may_search_beside_functions
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.model_names import plain_name
from bridge.gemini.service_tier import STANDARD, normalise_tier
from bridge.gemini.types import Content, FileData, FunctionResponse, GenerateRequest
from bridge.observe.record import ArmOfRequest, Record
from bridge.protocols.base import Caller
from bridge.protocols.json_reading import invalid_field, quoted
from bridge.settings.experiments import KEY, Arm, Experiment
from bridge.settings.models import LONGEST_NAME, today
from bridge.settings.name_patterns import Patterns
from bridge.settings.prices import PriceTable
from bridge.settings.routes import Target
from bridge.state.usage_store import Assignment
from bridge.upstream.capabilities import Capability
from bridge.upstream.directory import UpstreamDirectory

HEADER = "x-bridge-experiment"  #: of answers; testers send the same to choose their arm
BUCKETS = 10_000

NO_ACCESS = "access"  #: the key may not use the model of the arm, or the model is gone


def bucket(experiment: str, unit: str) -> int:
    return int.from_bytes(sha256(f"{experiment}\0{unit}".encode()).digest()[:8]) % BUCKETS


def arm_of(experiment: Experiment, unit: str) -> Arm:
    """The arms divide the buckets in their order. An arm whose weight grows keeps all of its units."""
    place, total = bucket(experiment.name, unit), sum(arm.weight for arm in experiment.arms)
    ends = accumulate(arm.weight for arm in experiment.arms)
    return next(arm for arm, end in zip(experiment.arms, ends, strict=True) if place < end * BUCKETS // total)


@dataclass(frozen=True, slots=True)
class _Compiled:
    """An experiment with its patterns."""

    experiment: Experiment
    aliases: Patterns
    keys: Patterns
    except_keys: Patterns
    testers: Patterns

    @classmethod
    def of(cls, experiment: Experiment) -> _Compiled:
        lists = experiment.aliases, experiment.keys, experiment.except_keys, experiment.testers
        return cls(experiment, *map(Patterns, lists))

    def takes(self, key: str) -> bool:
        return self.keys.match(key) and not self.except_keys.match(key)


class Reader(NamedTuple):
    """The reader of a list of models."""

    key: str  #: the name of the client's key
    owner: str
    session: Session | None
    may_use: Callable[[str, str], bool]  #: whether the key permits the name or the model


class Experiments:
    """The experiments of one process."""

    def __init__(
        self,
        rows: Sequence[Experiment],
        models: ModelDirectory,
        upstreams: UpstreamDirectory,
        prices: PriceTable,
        shadows: ShadowRunner | None,
    ) -> None:
        self._rows = [_Compiled.of(row) for row in rows]
        self._names = {row.name for row in rows}
        self._models = models
        self._upstreams = upstreams
        self._prices = prices
        self._shadows = shadows

    # --- requests ------------------------------------------------------------------------------------

    def enter(self, request: GenerateRequest, caller: Caller, record: Record) -> EnteredArm:
        """The arm of the request; the record gets it too. Raises NotAllowed or InvalidRequest for a header
        that chooses an arm without permission, or one that does not exist."""
        row = self._of(request.model)
        wish = caller.headers.get(HEADER)
        chosen = self._chosen(row, wish, record) if wish else None
        if row is None or not (chosen or row.takes(record.key or "")):
            return NO_ARM
        experiment = row.experiment
        if chosen is not None:
            record.assignment = ArmOfRequest(experiment.name, chosen.name, Assignment.CHOSEN)
            return EnteredArm(chosen.models, chosen.thinking)
        unit = caller.owner if experiment.unit == KEY else request.conversation
        return self._assigned(experiment, arm_of(experiment, unit), request, caller, record)

    def _of(self, name: str) -> _Compiled | None:
        if len(name) > LONGEST_NAME or self._models.table.is_model(name):
            return None
        plain, day = plain_name(name), today()
        return next(
            (row for row in self._rows if row.experiment.runs(day) and row.aliases.match(plain)), None
        )

    def _chosen(self, row: _Compiled | None, wish: str, record: Record) -> Arm | None:
        """The arm that the header names. It may name the arm of another experiment than the model's."""
        name, _, rest = wish.partition(";")
        if name.strip() not in self._names:
            raise invalid_field(f"there is no experiment {quoted(name.strip())}", HEADER)
        if row is None or row.experiment.name != name.strip():
            return None
        if not row.testers.match(record.key or ""):
            raise NotAllowed(
                f"{HEADER}: this key may not choose its arm; the administrator can add it to the testers of "
                f"{row.experiment.name} in config/experiments.toml",
                param=HEADER,
                rule="experiment.testers",
            )
        wanted = rest.partition(";")[0].strip().removeprefix("arm=")
        for arm in row.experiment.arms:
            if arm.name == wanted:
                return arm
        names = ", ".join(arm.name for arm in row.experiment.arms)
        raise invalid_field(f"{name.strip()} has no arm {quoted(wanted)}; its arms are {names}", HEADER)

    def _assigned(
        self, experiment: Experiment, arm: Arm, request: GenerateRequest, caller: Caller, record: Record
    ) -> EnteredArm:
        """The arm, or the control if this request is too much for the arm."""
        lacking = {each.name: self._lacking(each, request, caller) for each in experiment.arms}
        control = lacking[experiment.control.name]
        equal = all(each == control for each in lacking.values())
        for serving in (arm, experiment.control):
            lacks = lacking[serving.name]
            if NO_ACCESS not in lacks and lacks <= control:
                break
        else:
            serving, equal = Arm(experiment.control.name, 1), False
        mark = Assignment.HASHED if equal else Assignment.INELIGIBLE
        record.assignment = ArmOfRequest(experiment.name, serving.name, mark)
        entered = EnteredArm(serving.models, serving.thinking)
        if equal and serving is experiment.control and experiment.shadows and self._shadows is not None:
            return entered._replace(offer=partial(self._offer, self._shadows, experiment))
        return entered

    @staticmethod
    def _offer(runner: ShadowRunner, experiment: Experiment, request: GenerateRequest, owner: str) -> None:
        for shadow in experiment.shadows:
            if random.random() < shadow.share:
                runner.offer(experiment, shadow, request, owner)

    # --- what an arm cannot do -----------------------------------------------------------------------

    def _lacking(self, arm: Arm, request: GenerateRequest, caller: Caller) -> frozenset[str]:
        """What this request needs and the arm lacks."""
        try:
            choices = permitted_choices(request.model, caller, self._models, request.conversation, arm.models)
        except BridgeError:
            return frozenset({NO_ACCESS})
        first = choices[0][0]
        tier = normalise_tier(request.service_tier or STANDARD)
        if caller.cost_limited and not self._prices.knows(*first.price_names, tier=tier):
            return frozenset({NO_ACCESS})
        return frozenset(self._missing(first, arm, request))

    def _missing(self, target: Target, arm: Arm, request: GenerateRequest) -> Iterator[str]:
        model, cannot = self._models.capabilities(target), self._upstreams[target.upstream].CANNOT
        if request.draws and not model.draws:
            yield "images"
        if _asks_json_beside_tools(request) and not model.json_beside_tools:
            yield "json"
        if _asks_search_beside_functions(request) and not model.search_beside_functions:
            yield "search"
        if Capability.SEARCH in cannot and any(tool.extra for tool in request.tools):
            yield "google tools"
        if Capability.MEDIA_ADDRESSES in cannot and any(map(_has_address, request.contents)):
            yield "addresses"
        if arm.thinking and request.native:
            yield "thinking"  # the thinking settings of native clients stay as they are

    # --- lists of models -----------------------------------------------------------------------------

    def listed_models(self, name: str, reader: Reader | None) -> tuple[Target, ...]:
        """The models to describe under this name. If the arm is not known, those with the smallest window:
        this description is true in every arm."""
        row = self._of(name)
        if row is None or not (reader is None or row.takes(reader.key)):
            return ()
        experiment = row.experiment
        if reader is None:
            return self._smallest(name, experiment.arms).models
        usable = [arm for arm in experiment.arms if self._may_list(name, arm, reader)]
        unit = _unit_of_reader(experiment, reader)
        if not usable or unit is None:
            return self._smallest(name, usable or experiment.arms).models
        arm = arm_of(experiment, unit)
        return (arm if arm in usable else experiment.control).models

    def _may_list(self, name: str, arm: Arm, reader: Reader) -> bool:
        return reader.may_use(name, self._models.resolve(name, arm.models))

    def _smallest(self, name: str, arms: Sequence[Arm]) -> Arm:
        return min(arms, key=lambda arm: self._window(name, arm))

    def _window(self, name: str, arm: Arm) -> float:
        try:
            target = self._models.routed(self._models.choices(name, arm.models)[0])[0]
        except BridgeError:
            return float("inf")
        return self._models.capabilities(target).window or float("inf")


def _unit_of_reader(experiment: Experiment, reader: Reader) -> str | None:
    if experiment.unit == KEY:
        return reader.owner
    return None if reader.session is None else session_conversation(reader.owner, reader.session)


def _asks_json_beside_tools(request: GenerateRequest) -> bool:
    wants_json = request.generation.get("responseMimeType") == "application/json"
    return bool(request.tools) and wants_json and not request.native


def _asks_search_beside_functions(request: GenerateRequest) -> bool:
    able = ModelCapabilities(search_beside_functions=True)
    return may_search_beside_functions(request, able)


def _has_address(content: Content) -> bool:
    return any(
        isinstance(item, FileData)
        for part in content.parts
        for item in (part.data.media if isinstance(part.data, FunctionResponse) else (part.data,))
    )
