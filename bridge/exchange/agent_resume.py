"""Goes on with a run of an agent, without a client: for the administrator's command."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from bridge.errors import BridgeError
from bridge.exchange.exchange import answer_of_model
from bridge.exchange.losses import RequestLosses
from bridge.exchange.services import Services
from bridge.gemini.types import Usage
from bridge.guards.guard_runner import GuardRunner
from bridge.ids_and_clock import random_id
from bridge.observe.record import Observer, Record
from bridge.protocols.base import Caller


def resume_run(run_id: str, services: Services, keep_usage: Observer, write: Callable[[str], None]) -> None:
    """Write the text of the answer as it arrives. The usage is recorded as that of a request."""
    record = Record(random_id("req_"), "RESUME", run_id, keepers=(keep_usage,), status=200)
    caller = Caller()
    guards, losses = GuardRunner(services.guards, record.request_id), RequestLosses(caller, record)
    run = services.agents.resume(
        run_id,
        lambda request: answer_of_model(
            request, caller, services=services, record=record, guards=guards, losses=losses
        ),
        services.ids_and_clock.new_id,
    )
    record.model, record.key = run.model, run.key
    record.asks_model()
    usage = Usage()
    try:
        for chunk in chain.from_iterable(run.stream):
            usage = chunk.usage or usage
            for part in (part for candidate in chunk.candidates for part in candidate.parts):
                if isinstance(part.data, str) and not part.thought:
                    write(part.data)
    except BridgeError as error:
        record.failed(error)
        raise
    finally:
        run.stream.close()
        record.count(usage)
        record.tell()
