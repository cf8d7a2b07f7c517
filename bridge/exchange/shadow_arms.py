"""Sends copies of requests to shadow arms. Nobody gets the answers, and nothing of them is kept but a usage
row of their own.

Shadows come last: a few threads send them one after the other, and a copy is dropped if the process is busy,
if the queue is full, or if the day's budget is spent. They use upstream objects of their own, so no
client's request sees their cool-downs. The request cache and the signature store learn nothing from them.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from bridge.errors import BridgeError, UpstreamTimeout
from bridge.exchange.google_storage import without_storage
from bridge.exchange.in_text import before_adapting, prepared_in_text
from bridge.exchange.model_directory import ModelDirectory
from bridge.gemini.model_adapter import adapt_request
from bridge.gemini.signatures import CallSignatures
from bridge.gemini.thinking import with_level
from bridge.gemini.turn import Turn, TurnFailed
from bridge.gemini.types import Content, FunctionCall, FunctionResponse, GenerateRequest, InlineData, Part
from bridge.ids_and_clock import IdsAndClock
from bridge.observe import metrics
from bridge.observe.costs import cost_of
from bridge.observe.record import ArmOfRequest, Observer, Record
from bridge.settings.experiments import Experiment, ShadowArm
from bridge.settings.prices import PriceTable
from bridge.settings.routes import Target
from bridge.state.errors import StorageError
from bridge.state.signature_store import SignatureStore
from bridge.state.usage_store import Assignment, UsageQuery, UsageStore
from bridge.upstream.directory import UpstreamDirectory
from bridge.upstream.prepared_attempt import PreparedAttempt
from bridge.upstream.retries import is_visible

log = logging.getLogger(__name__)

PROTOCOL = "shadow"  #: of the usage rows
MOST_WAITING = 64
THREADS = 2
LARGEST = 2 * 1024 * 1024  #: characters of a request that may wait
MOST_CHARACTERS = 8 * LARGEST  #: of all waiting requests
DEADLINE = 180.0  #: seconds for one answer
BUDGET_AGE = 10.0  #: seconds for which a sum of the usage store is used

ANSWERED, FAILED = "answered", "failed"
BUSY, FULL, LARGE, TOOLS, SPENT = "busy", "full", "large", "tools", "spent"


def owner_of_costs(experiment: str, shadow: str) -> str:
    """The name under which usage reports show the shadow in the place of a key. No key can have it."""
    return f"shadow:{experiment}:{shadow}"


class Job(NamedTuple):
    experiment: str
    shadow: ShadowArm
    request: GenerateRequest
    owner: str  #: whose signatures belong to the history
    size: int  #: characters


class ReadOnlySignatures(CallSignatures):
    def __init__(self, signatures: CallSignatures) -> None:
        self._signatures = signatures

    def keep(self, family: str, signatures: Mapping[str, str]) -> None:
        """Answers of a shadow leave no signatures."""

    def find(self, family: str, call_ids: Iterable[str]) -> Mapping[str, str]:
        return self._signatures.find(family, call_ids)


class DailyBudget:
    """What the shadows have cost today in all processes, read from the usage store."""

    def __init__(self, usage: UsageStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._usage = usage
        self._clock = clock
        self._spent: dict[str, tuple[float, float]] = {}  #: moment of reading and cost, by owner
        self._lock = threading.Lock()

    def is_spent(self, owner: str, limit: float) -> bool:
        """Also if the cost cannot be read."""
        with self._lock:
            read_at, cost = self._spent.get(owner, (float("-inf"), 0.0))
            if self._clock() - read_at > BUDGET_AGE:
                try:
                    cost = self._read(owner)
                except StorageError:
                    return True
                self._spent[owner] = self._clock(), cost
            return cost >= limit

    def add(self, owner: str, cost: float) -> None:
        with self._lock:
            read_at, before = self._spent[owner]
            self._spent[owner] = read_at, before + cost

    def _read(self, owner: str) -> float:
        day = datetime.now(UTC).date()
        return sum(group.sums.cost for group in self._usage.sums(UsageQuery(("key",), day, day, owner)))


@dataclass(frozen=True, slots=True)
class ShadowSide:
    """The objects that shadows use."""

    models: ModelDirectory
    upstreams: UpstreamDirectory  #: not those of the clients' requests
    signatures: SignatureStore
    ids_and_clock: IdsAndClock
    prices: PriceTable
    usage: UsageStore
    write_row: Observer
    is_busy: Callable[[], bool]


class ShadowRunner:
    """The queue and the threads of one process; the threads start with the first copy."""

    def __init__(self, side: ShadowSide) -> None:
        self._side = side
        self._budget = DailyBudget(side.usage)
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._characters = 0  #: of the waiting requests
        self._started = False

    def offer(self, experiment: Experiment, shadow: ShadowArm, request: GenerateRequest, owner: str) -> None:
        """Send a copy of the request when there is time, or drop it."""
        job = Job(experiment.name, shadow, request, owner, _size(request))
        if (end := self._refusal(job)) is not None:
            metrics.shadow_ended(experiment.name, shadow.name, end)

    def _refusal(self, job: Job) -> str | None:
        """Why the copy is dropped; None if it waits in the queue."""
        request = job.request
        if any(tool.extra for tool in request.tools) or request.extra.get("cachedContent"):
            return TOOLS  # Google would run its tools once more; cached contents belong to one model
        if self._side.is_busy():
            return BUSY
        if job.size > LARGEST:
            return LARGE
        with self._lock:
            if self._jobs.qsize() >= MOST_WAITING or self._characters + job.size > MOST_CHARACTERS:
                return FULL
            self._characters += job.size
            self._jobs.put(job)
            self._start()
        return None

    def _start(self) -> None:
        if not self._started:
            self._started = True
            for number in range(THREADS):
                threading.Thread(target=self._work, name=f"shadow-{number}", daemon=True).start()

    # --- in the threads ------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            with self._lock:
                self._characters -= job.size
            try:
                end = self._run(job)
            except Exception:  # the thread must not end
                log.exception("shadow request failed")
                end = FAILED
            metrics.shadow_ended(job.experiment, job.shadow.name, end)

    def _run(self, job: Job) -> str:
        owner = owner_of_costs(job.experiment, job.shadow.name)
        if self._budget.is_spent(owner, job.shadow.cost_per_day):
            return SPENT
        if self._side.is_busy():
            return BUSY
        record = Record(
            self._side.ids_and_clock.new_id("shadow_"),
            "",
            "",
            key=owner,
            protocol=PROTOCOL,
            model=job.request.model,
            conversation=job.request.conversation,
            stream=True,
            assignment=ArmOfRequest(job.experiment, job.shadow.name, Assignment.SHADOW),
        )
        try:
            self._ask(job, record)
        except BridgeError as error:
            record.failed(error)
        if record.asked_model:
            self._side.write_row(record)
        self._budget.add(owner, cost_of(record, self._side.prices) or 0.0)
        return ANSWERED if record.error is None else FAILED

    def _ask(self, job: Job, record: Record) -> None:
        """Send the request once and read its answer."""
        prepared = self._prepared(job, record)
        until = time.monotonic() + DEADLINE
        stream, feed, turn = prepared.upstream.stream(prepared.request), prepared.new_feed(), Turn()
        record.asks_model()
        try:
            for chunks in stream:
                for chunk in map(feed, chunks):
                    if is_visible(chunk):
                        record.first_byte()
                    turn.feed(chunk)
                if time.monotonic() > until:
                    raise UpstreamTimeout(f"The answer took longer than {DEADLINE:g} seconds")
            for step in turn.finish():
                if isinstance(step, TurnFailed):
                    raise step.error
        finally:
            stream.close()
            record.count(turn.usage)

    def _prepared(self, job: Job, record: Record) -> PreparedAttempt:
        side, target = self._side, self._target(job)
        record.upstream_model = target.model
        record.upstream = target.upstream if side.upstreams.several else None
        request = with_level(job.request, job.shadow.thinking) if job.shadow.thinking else job.request
        row = side.upstreams.rows[target.upstream]
        request, capabilities = before_adapting(request, side.models.capabilities(target), row)
        signatures = ReadOnlySignatures(side.signatures.of(job.owner))
        changed, adapter = adapt_request(
            without_storage(request), target.model, capabilities, signatures, side.ids_and_clock.new_id
        )
        repaired, _ = side.models.without_known_problems(changed, target)
        prepared = PreparedAttempt(target, side.upstreams[target.upstream], repaired, adapter)
        return prepared_in_text(prepared, request, capabilities, record)

    def _target(self, job: Job) -> Target:
        models, request = self._side.models, job.request
        return models.routed(models.choices(request.model, job.shadow.models)[0], request.conversation)[0]


def _size(request: GenerateRequest) -> int:
    contents: list[Content] = [*request.contents, *([request.system] if request.system else [])]
    return sum(_part_size(part) for content in contents for part in content.parts)


def _part_size(part: Part) -> int:
    match part.data:
        case str(text):
            return len(text)
        case InlineData(data=data):
            return len(data)
        case FunctionCall(args=args):
            return len(str(args))
        case FunctionResponse(response=response, media=media):
            return len(str(response)) + sum(_part_size(Part(item)) for item in media)
    return 0
