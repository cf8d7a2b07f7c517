"""The targets of requests: a running gateway in one of its protocols, or the fake Gemini itself."""

from __future__ import annotations

import http.client
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from bench.check import Checked, checked
from bench.gateways import Gateway, Place
from bench.load import Load, Request, put
from bench.processes import Command, Process, free_port
from bench.protocols import GEMINI, Protocol
from bench.results import DIRECT, Who
from bench.scenarios import Scenario
from bench.script import Script

START_TIMEOUT = 120.0  #: seconds in which a gateway must start

#: A gateway counts as started when it has answered this scenario.
FIRST = Scenario("first", Script(2), Load(), stream=False)


@dataclass(frozen=True, slots=True)
class Contender:
    who: Who
    protocol: Protocol
    port: int
    headers: Mapping[str, str]
    process: Process

    def ask(self, scenario: Scenario, load: Load) -> list[Checked]:
        model, protocol = scenario.script.model, self.protocol
        request = Request.post(
            f"127.0.0.1:{self.port}",
            protocol.path(model, scenario.stream),
            {"Authorization": "Bearer bench-key-0000", **protocol.headers, **self.headers},
            orjson.dumps(protocol.body(scenario.conversation, model, scenario.stream)),
        )
        answers = put(self.port, request, load)
        return [checked(answer, protocol, scenario.script, scenario.stream) for answer in answers]

    def wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        failure: str | None = ""
        while failure is not None:
            self.process.insist()
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.who.gateway} does not answer: {failure}")
            failure = self._first_failure()

    def _first_failure(self) -> str | None:
        try:
            failure = self.ask(FIRST, FIRST.load)[0].failure
        except OSError as error:
            failure = str(error)
        if failure is not None:
            time.sleep(0.005)
        return failure


@dataclass(frozen=True, slots=True)
class Fake:
    contender: Contender

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.contender.port}"

    def asked(self) -> dict[str, int]:
        """Counts of the parts of the last request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.contender.port, timeout=10)
        connection.request("GET", "/asked")
        counts: dict[str, int] = orjson.loads(connection.getresponse().read())
        connection.close()
        return counts


@contextmanager
def _running(command: Command, log: Path) -> Iterator[Process]:
    process = Process(command, log)
    try:
        yield process
    finally:
        process.stop()


@contextmanager
def fake_gemini() -> Iterator[Fake]:
    port = free_port()
    command = Command((sys.executable, "-m", "bench.fake_gemini", str(port)), {})
    with TemporaryDirectory() as folder, _running(command, Path(folder) / "log") as process:
        contender = Contender(DIRECT, GEMINI, port, {}, process)
        contender.wait_until_it_answers()
        yield Fake(contender)


@contextmanager
def started(gateway: Gateway, upstream: str) -> Iterator[list[Contender]]:
    """Start the gateway and wait until it answers; one contender for each of its protocols."""
    with TemporaryDirectory() as folder:
        place = Place(free_port(), upstream, Path(folder))
        with _running(gateway.command(place), Path(folder) / "log") as process:
            contenders = [
                Contender(
                    Who(gateway.name, protocol.name), protocol, place.port, gateway.headers(place), process
                )
                for protocol in gateway.protocols
            ]
            contenders[0].wait_until_it_answers()
            yield contenders
