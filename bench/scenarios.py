"""The scenarios: which request, how often, by how many clients at once. docs/PERFORMANCE.md explains them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bench.conversation import LONG, SHORT, Conversation
from bench.load import Load
from bench.script import Script


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    script: Script
    load: Load
    stream: bool = True
    conversation: Conversation = SHORT
    repetitions: int = 5
    warm_up: Load = Load(clients=4, each=5)  # noqa: RUF009


def _one_client(requests: int) -> Load:
    return Load(each=requests, seconds=2.0)


def _paced(name: str, clients: int, repetitions: int) -> Scenario:
    """The clients start within one second, the duration of a stream: at its end all streams run."""
    return Scenario(
        name, Script(50, 20), Load(clients, each=2, ramp=1.0, seconds=6.0), repetitions=repetitions
    )


SCENARIOS = (
    Scenario("S0", Script(2), _one_client(120)),
    Scenario("S1", Script(50), _one_client(120), stream=False),
    Scenario("S1few", Script(4), _one_client(120), stream=False),
    Scenario("S2", Script(200), _one_client(60)),
    Scenario("S4", Script(5), _one_client(40), conversation=LONG),
    _paced("S3", 200, repetitions=3),
    _paced("S3x50", 50, repetitions=1),
    _paced("S3x100", 100, repetitions=1),
    _paced("S3x400", 400, repetitions=1),
)

#: A scenario without a load: a gateway starts, answers once and is then idle.
START = "S5"


# --- efforts -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Effort:
    starts: int
    fitted: Callable[[Scenario], Scenario | None]


def _beside_others(scenario: Scenario) -> Scenario | None:
    """Some gateways need a minute for the work that takes the floor three seconds."""
    if scenario.script.pause_ms:
        return replace(scenario, repetitions=2) if scenario.repetitions > 1 else None
    return scenario


def _quick(scenario: Scenario) -> Scenario | None:
    if scenario.script.pause_ms:
        return replace(scenario, repetitions=1) if scenario.repetitions > 1 else None
    load = replace(scenario.load, each=scenario.load.each // 3)
    return replace(scenario, load=load, repetitions=3)


def _smoke(scenario: Scenario) -> Scenario | None:
    """Checks that the benchmark works; too short to measure."""
    if scenario.repetitions == 1:
        return None
    script = replace(scenario.script, chunks=min(scenario.script.chunks, 10))
    load = Load(min(scenario.load.clients, 4))
    return replace(scenario, script=script, load=load, repetitions=1, warm_up=Load())


EFFORTS = {
    "full": Effort(5, lambda scenario: scenario),
    "peers": Effort(3, _beside_others),
    "quick": Effort(2, _quick),
    "smoke": Effort(1, _smoke),
}
