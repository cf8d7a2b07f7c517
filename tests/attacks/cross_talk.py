"""Many questions over kept connections to an upstream that misbehaves: `make cross-talk REQUESTS=5000`

The real bridge with two workers runs between `EchoingGemini` and clients of five protocols. Some clients
disconnect during an answer, and some pipeline several questions. Each question has its own marker. At the end
the program reports each answer that held a foreign marker. The exit code is 0 if there is none.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import requests

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from echoing_gemini import EchoingGemini  # noqa: E402
from gunicorn_bridge import Bridge, gunicorn_bridge  # noqa: E402
from raw_clients import CHAT, INTERACTIONS, MESSAGES, NATIVE, RESPONSES, Answer, RawClient  # noqa: E402
from waiting import eventually  # noqa: E402
from wire import NotHttp, WireAnswer, read_answers, received  # noqa: E402

from tests.attacks.answer_text import answer_text  # noqa: E402
from tests.attacks.connection_faults import (  # noqa: E402
    CONNECTION_FAULTS,
    EARLY,
    IDLE_BEHAVIOURS,
    ORDINARY,
    SLOW_BEHAVIOURS,
    UNSAFE_TO_REUSE,
)
from tests.attacks.marked_answers import said  # noqa: E402

SETTINGS = {
    "GEMINI_API_KEY": "AIzaTalk0123456789abcdefghijklmnopqrstu",
    "BRIDGE_SERVER__HEARTBEAT": "1",
    "BRIDGE_UPSTREAM__ATTEMPTS": "2",
    "BRIDGE_UPSTREAM__KEY_COOLDOWN": "0",
    "BRIDGE_UPSTREAM__READ_TIMEOUT": "10",
}
RAW_CLIENTS = (CHAT, RESPONSES, MESSAGES, NATIVE, INTERACTIONS)
CLIENTS = 20
#: Questions between two idle moments, in which the upstream sends its unrequested bytes.
ROUND = 100
ORDINARY_SHARE = 0.4
LEAVING_SHARE = 0.1
TOGETHER_SHARE = 0.1
TIMEOUT = 60.0
#: A marker or the start of one: an answer may be truncated inside a marker.
ANY_MARKER = re.compile(rb"mk[0-9a-f]{2,16}")
REQUEST_LINE = '"message":"request"'  #: logged when a request is done, also after a disconnect
LOST_STREAMS = re.compile(r"^gemini_bridge_streams_without_terminal_event_total\S* (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Job:
    raw_client: RawClient
    behaviour: str
    stream: bool
    marker: str

    def wire(self) -> bytes:
        path, fields = self.raw_client.request(f"gemini-{self.behaviour}--{self.marker}", self.stream)
        body = json.dumps(fields).replace("Hello", f"Say {self.marker}").encode()
        lines = [f"POST {path} HTTP/1.1", "Host: b", "Content-Type: application/json"]
        return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body

    def __str__(self) -> str:
        return f"{self.raw_client.name} {'streamed' if self.stream else 'whole'} {self.behaviour}"


@dataclass
class Tally:
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


# --- checking ----------------------------------------------------------------------------------------


def outcome_of(job: Job, found: WireAnswer) -> str:
    answer = Answer(job.raw_client, found.status, found.headers, found.body, job.stream)
    if not answer.ended_legally:
        return "no end"
    return "failed legally" if answer.failed or not answer.ended_well else "whole"


def foreign_markers(job: Job, found: WireAnswer) -> set[bytes]:
    """Return the foreign markers in the body and in the headers."""
    everything = found.body + json.dumps(found.headers).encode()
    return {each for each in ANY_MARKER.findall(everything) if not job.marker.encode().startswith(each)}


def problems_of(job: Job, found: WireAnswer, outcome: str) -> Iterator[str]:
    if foreign := foreign_markers(job, found):
        yield f"{job} {job.marker} holds {foreign}"
    if not found.whole or outcome == "no end":
        yield f"{job} {job.marker} has no end: {found.status} {found.body[-300:]!r}"
        return
    told = answer_text(job.raw_client.name, found.body, job.stream) if found.status == 200 else ""
    expected = said(job.marker)
    if told != expected and (outcome == "whole" or not expected.startswith(told)):
        yield f"{job} {job.marker} says {told!r}"


# --- clients -----------------------------------------------------------------------------------------


class Client:
    """One connection to the bridge that sends questions in sequence."""

    def __init__(self, bridge: Bridge, gemini: EchoingGemini, tally: Tally, chance: random.Random) -> None:
        host, port = bridge.address.removeprefix("http://").split(":")
        self._place = (host, int(port))
        self._gemini = gemini
        self._tally = tally
        self._chance = chance
        self._socket: socket.socket | None = None

    def do(self, jobs: list[Job]) -> None:
        while jobs:
            chosen = self._chance.random()
            count = min(len(jobs), 3 if chosen < TOGETHER_SHARE else 1)
            now, jobs = jobs[:count], jobs[count:]
            if TOGETHER_SHARE <= chosen < TOGETHER_SHARE + LEAVING_SHARE:
                self._leave_in_the_middle(now[0])
            else:
                self._ask(now)
        self.close_connection()

    def close_connection(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(self._place, timeout=TIMEOUT)
        return self._socket

    def _ask(self, jobs: list[Job]) -> None:
        try:
            self._connected().sendall(b"".join(job.wire() for job in jobs))
            answers, ended = read_answers(self._connected(), len(jobs))
        except (OSError, NotHttp) as error:
            self._tally.wrong.append(f"{[str(job) for job in jobs]}: {error!r}")
            self.close_connection()
            return
        if ended:
            self.close_connection()
        if len(answers) != len(jobs):
            self._tally.wrong.append(f"{[str(job) for job in jobs]} got {len(answers)} answers")
        for job, answer in zip(jobs, answers, strict=False):
            self._take(job, answer)

    def _take(self, job: Job, answer: WireAnswer) -> None:
        outcome = outcome_of(job, answer)
        self._tally.outcomes[outcome] += 1
        self._tally.wrong.extend(problems_of(job, answer, outcome))

    def _leave_in_the_middle(self, job: Job) -> None:
        if self._chance.random() < 0.5:
            job = replace(job, behaviour=self._chance.choice(sorted(SLOW_BEHAVIOURS)), stream=True)
        client = self._connected()
        client.sendall(job.wire())
        eventually(lambda: self._gemini.times_asked(job.marker), every=0.01)
        come = received(client) if self._chance.random() < 0.7 else b""
        if self._chance.random() < 0.5:  # disconnect with a reset
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection()
        self._tally.outcomes["left"] += 1
        if foreign := foreign_markers(job, WireAnswer(0, {}, come, False)):
            self._tally.wrong.append(f"{job} {job.marker} began with {foreign}")


# --- all together ------------------------------------------------------------------------------------


def behaviour_of(number: int, chance: random.Random) -> str:
    """Return each fault in turn, with ordinary answers between; an idle fault at a round's end."""
    if number % ROUND >= ROUND - CLIENTS:
        return chance.choice(sorted(IDLE_BEHAVIOURS))
    if chance.random() < ORDINARY_SHARE:
        return chance.choice(sorted(ORDINARY))
    return sorted(CONNECTION_FAULTS)[number % len(CONNECTION_FAULTS)]


def jobs_for(count: int, chance: random.Random) -> list[Job]:
    return [
        Job(
            chance.choice(RAW_CLIENTS),
            behaviour_of(number, chance),
            chance.random() < 0.6,
            f"mk{chance.getrandbits(64):016x}",
        )
        for number in range(count)
    ]


def attack(bridge: Bridge, gemini: EchoingGemini, count: int, seed: int) -> Tally:
    tally, chance = Tally(), random.Random(seed)
    jobs = jobs_for(count, chance)
    clients = [Client(bridge, gemini, tally, random.Random(chance.random())) for _ in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as threads:
        for start in range(0, count, ROUND):
            now = jobs[start : start + ROUND]
            for part in (now[:-CLIENTS], now[-CLIENTS:]):  # other questions would use the idle connections
                list(threads.map(Client.do, clients, [part[each::CLIENTS] for each in range(CLIENTS)]))
            if not all_done(bridge, start + len(now)):
                tally.wrong.append("the log does not tell of every request")
            gemini.send_late()
            time.sleep(0.02)  # until the bytes have arrived
    return tally


def all_done(bridge: Bridge, count: int) -> bool:
    """Wait until all requests are done, also those of disconnected clients."""
    return eventually(lambda: bridge.lines().count(REQUEST_LINE) >= count)


def verdict(bridge: Bridge, gemini: EchoingGemini, tally: Tally) -> list[str]:
    """Return the errors of the run."""
    wrong = [*tally.wrong, *gemini.mixed, *gemini.reused_unsafe]
    lost = LOST_STREAMS.findall(requests.get(f"{bridge.address}/metrics", timeout=TIMEOUT).text)
    if not lost or any(float(each) for each in lost):
        wrong.append(f"streams without their last event: {lost}")
    wrong += [line for line in bridge.lines().splitlines() if "Traceback" in line or '"exception"' in line]
    return wrong


@contextmanager
def bridge_and_upstream() -> Iterator[tuple[Bridge, EchoingGemini]]:
    gemini = EchoingGemini(
        {**ORDINARY, **SLOW_BEHAVIOURS, **IDLE_BEHAVIOURS, **CONNECTION_FAULTS}, EARLY, UNSAFE_TO_REUSE
    )
    try:
        with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=gemini.address, **SETTINGS) as bridge:
            yield bridge, gemini
    finally:
        gemini.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    arguments = parser.parse_args()
    began = time.monotonic()
    with bridge_and_upstream() as (bridge, gemini):
        tally = attack(bridge, gemini, arguments.requests, arguments.seed)
        wrong = verdict(bridge, gemini, tally)
    print(f"{arguments.requests} requests with seed {arguments.seed} in {time.monotonic() - began:.0f} s")
    for outcome, count in tally.outcomes.most_common():
        print(f"  {count:7} {outcome}")
    print(f"{sum(gemini.asked.values())} questions upstream, {gemini.reused} over kept connections,")
    print(f"  {len(gemini.asked)} ways to behave, {gemini.sent_late} times something unasked while idle")
    print("\n".join(f"WRONG: {each}" for each in wrong) or "VERDICT: no byte of one was found in another")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
