"""Runs the scenarios. Each repetition measures all gateways, so that a slower machine affects all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from bench.contenders import Contender, Fake, fake_gemini, started
from bench.conversation import LONG
from bench.gateways import Gateway
from bench.processes import machine_cpu_seconds
from bench.results import DIRECT, Results, Sample, sample_of
from bench.scenarios import START, Scenario

SETTLE = 0.1  #: seconds for the work of a gateway after an answer, such as its log
REST = 1.0  #: seconds until a started gateway is idle

Progress = Callable[[str], None]


def measured(
    gateways: Sequence[Gateway], scenarios: Sequence[Scenario], starts: int, progress: Progress
) -> Results:
    results = Results()
    with fake_gemini() as fake:
        with ExitStack() as stack:
            contenders = [fake.contender]
            for gateway in gateways:
                progress(f"starting {gateway.name}")
                contenders += stack.enter_context(started(gateway, fake.address))
            _ask_all(contenders, scenarios, fake, results, progress)
        for number in range(starts):
            progress(f"{START} start {number + 1} of {starts}")
            for gateway in gateways:
                _measure_start(gateway, fake, results)
    return results


def _ask_all(
    contenders: Sequence[Contender],
    scenarios: Sequence[Scenario],
    fake: Fake,
    results: Results,
    progress: Progress,
) -> None:
    able = {each.name: _warmed_up(contenders, each, fake, results) for each in scenarios}
    for number in range(max((scenario.repetitions for scenario in scenarios), default=0)):
        for scenario in scenarios:
            if number < scenario.repetitions:
                progress(f"{scenario.name} repetition {number + 1} of {scenario.repetitions}")
                for contender in _rotated(able[scenario.name], number):
                    results.add(contender.who, scenario.name, _sample(contender, scenario, fake))


def _rotated(contenders: Sequence[Contender], number: int) -> list[Contender]:
    """Change the order, so that no gateway always comes first or always after the same gateway."""
    start = number % len(contenders)
    turned = [*contenders[start:], *contenders[:start]]
    return turned if number % 2 == 0 else turned[::-1]


def _warmed_up(
    contenders: Sequence[Contender], scenario: Scenario, fake: Fake, results: Results
) -> list[Contender]:
    """The contenders that answer correctly; the results hold the failures of the others."""
    unpaced = replace(scenario, script=replace(scenario.script, pause_ms=0))
    able = []
    for contender in contenders:
        answers = contender.ask(unpaced, scenario.warm_up)
        if all(answer.failure for answer in answers):
            results.add(contender.who, scenario.name, sample_of(answers, scenario, None))
            continue
        able.append(contender)
        if scenario.conversation is LONG:
            results.passed_on[contender.who] = fake.asked()
    return able


def _sample(contender: Contender, scenario: Scenario, fake: Fake) -> Sample:
    clock, machine, ours = time.monotonic(), machine_cpu_seconds(), _our_seconds(contender, fake)
    before = contender.process.cpu_seconds()
    answers = contender.ask(scenario, scenario.load)
    time.sleep(SETTLE)
    used = contender.process.cpu_seconds() - before
    sample = sample_of(answers, scenario, None if contender.who == DIRECT else used)
    foreign = machine_cpu_seconds() - machine - (_our_seconds(contender, fake) - ours)
    sample.foreign_cores = max(0.0, foreign / (time.monotonic() - clock))
    return sample


def _our_seconds(contender: Contender, fake: Fake) -> float:
    processes = {contender.process, fake.contender.process}
    return time.process_time() + sum(process.cpu_seconds() for process in processes)


def _measure_start(gateway: Gateway, fake: Fake, results: Results) -> None:
    clock = time.monotonic()
    with started(gateway, fake.address) as contenders:
        seconds = time.monotonic() - clock
        time.sleep(REST)
        process = contenders[0].process
        sample = Sample(asked=1, right=1, start_s=seconds)
        sample.resident_mb, sample.proportional_mb = process.resident_mb(), process.proportional_mb()
        results.add(contenders[0].who, START, sample)
