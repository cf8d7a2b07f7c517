"""The services that all exchanges of a process share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bridge.exchange.agents import AgentModels
from bridge.exchange.context_fitting import ContextFitting
from bridge.exchange.drain import Drain
from bridge.exchange.hosted_servers import HostedAnswers
from bridge.exchange.media_by_url import MediaByUrl
from bridge.exchange.model_choices import NO_ARM, EnteredArm
from bridge.exchange.model_directory import ModelDirectory
from bridge.exchange.request_cache import RequestCache
from bridge.exchange.summaries import Summaries
from bridge.gemini.types import GenerateRequest
from bridge.guards.guard_runner import ActiveGuards
from bridge.ids_and_clock import IdsAndClock
from bridge.observe.record import Record
from bridge.protocols.base import Caller
from bridge.settings.prices import PriceTable
from bridge.settings.routes import Target
from bridge.state.signature_store import SignatureStore
from bridge.state.upstream_failures import UpstreamFailureStore
from bridge.upstream.cooldowns import Cooldowns
from bridge.upstream.directory import UpstreamDirectory
from bridge.upstream.retries import RetryPolicy

if TYPE_CHECKING:
    from bridge.exchange.experiment_arms import Experiments


@dataclass(frozen=True, slots=True)
class Services:
    upstreams: UpstreamDirectory
    models: ModelDirectory
    signatures: SignatureStore
    ids_and_clock: IdsAndClock
    guards: ActiveGuards
    cooldowns: Cooldowns
    policy: RetryPolicy
    drain: Drain
    heartbeat: float
    store: bool  #: whether Google may store prompts and answers
    prices: PriceTable  #: a request under a cost limit needs a model with a price
    auto_tier: str  #: the service tier that the bridge uses for `auto`
    media: MediaByUrl
    cache: RequestCache
    failures: UpstreamFailureStore
    context: ContextFitting
    summaries: Summaries
    agents: AgentModels
    hosted: HostedAnswers
    experiments: Experiments | None = None

    def arm_of(self, request: GenerateRequest, caller: Caller, record: Record) -> EnteredArm:
        """The arm of an experiment that the request belongs to."""
        return NO_ARM if self.experiments is None else self.experiments.enter(request, caller, record)

    def note_target(self, record: Record, target: Target) -> None:
        """Record the target that the request is sent to."""
        record.upstream_model = target.model
        if self.upstreams.several:
            record.upstream = target.upstream
