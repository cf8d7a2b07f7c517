"""Many concurrent streams with every fault, for a chosen time: `make soak SECONDS=1200`

The real bridge with two workers runs between an evil Gemini and clients of every protocol, some of which
disconnect. At the end the program reports streams without a final event, growth of the workers' memory, and
leaked connections or descriptors. The exit code is 0 if there are none. With BRIDGES=2 or more, all bridges
share one PostgreSQL server, and the program also reports lost usage rows and leases that did not end. With
UPSTREAMS=3 two evil servers that speak Chat Completions stand beside Gemini: each has models of its own, and
they share others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from evil_gemini import END, HEAD, Behaviour, Evil, UpstreamCall, chat_text, framed  # noqa: E402
from gunicorn_bridge import Bridge, gunicorn_bridge  # noqa: E402
from postgres_server import postgres_server  # noqa: E402
from raw_clients import RAW_CLIENTS, Answer, RawClient  # noqa: E402
from waiting import eventually  # noqa: E402

from bridge.state.postgres.database import Database  # noqa: E402
from bridge.state.postgres.migrations import upgrade  # noqa: E402
from bridge.upstream.transport.body_framing import BodyFraming, Chunked, Sized  # noqa: E402
from tests.faults.conftest import config_with_rows  # noqa: E402
from tests.faults.upstream_faults import BEHAVIOURS, OF_GEMINI  # noqa: E402

SETTINGS = {
    "GEMINI_API_KEY": "AIzaSoak0123456789abcdefghijklmnopqrstu",
    "BRIDGE_SERVER__THREADS": "192",
    "BRIDGE_SERVER__HEARTBEAT": "1",
    "BRIDGE_SERVER__GRACEFUL_TIMEOUT": "20",
    "BRIDGE_UPSTREAM__FIRST_BYTE_TIMEOUT": "8",
    "BRIDGE_UPSTREAM__READ_TIMEOUT": "6",
    "BRIDGE_UPSTREAM__ANSWER_TIMEOUT": "20",
    "BRIDGE_UPSTREAM__LONGEST_WAIT": "3",
    "BRIDGE_UPSTREAM__KEY_COOLDOWN": "0",
}
#: No request reaches this limit, and every request gets a lease.
COUNT_STREAMS = {"BRIDGE_LIMITS__STREAMS": "100000"}
BETWEEN_SAMPLES = 2.0
#: Share of the whole time in which pools fill, caches grow and threads start.
WARM_UP = 0.3
MOST_GROWTH = 1.0  #: MB in ten minutes
SHORTEST_FOR_A_SLOPE = 600.0  #: seconds; in a shorter run, noise exceeds growth
#: Of the models: Gemini's, those of one other server, and those that two other servers share.
FAMILIES = ("gemini", "chat", "shared")
NOT_FOR_LOAD = {"ten-megabytes", "flood", "never-ending", "endless-comments", "endless-trailers"}
NOT_FOR_LOAD |= {"gzip-bomb", "endless-event", "many-values"}


def talk(call: UpstreamCall) -> None:
    """Send an ordinary answer: a few seconds of chunks."""
    call.send(HEAD)
    for number in range(random.randint(10, 40)):
        call.send(framed(call.text(f"word {number} ")))
        time.sleep(random.uniform(0.05, 0.3))
    call.send(framed(call.text("done.", "STOP")), END)


FAULTS: dict[str, Behaviour] = {
    name: behaviour for name, behaviour in BEHAVIOURS.items() if name not in NOT_FOR_LOAD
}


@dataclass
class Tally:
    outcomes: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)

    def take(self, raw_client: RawClient, behaviour: str, outcome: str) -> None:
        self.outcomes[outcome] += 1
        if outcome == "no end":
            self.lost.append(f"{raw_client.name} {behaviour}")


async def keep_asking(bridges: list[Bridge], families: Sequence[str], until: float, tally: Tally) -> None:
    while time.monotonic() < until:
        raw_client = random.choice(RAW_CLIENTS)
        family = random.choice(families)
        faults = FAULTS if family == "gemini" else FAULTS.keys() - OF_GEMINI
        behaviour = "talk" if random.random() < 0.7 else random.choice(sorted(faults))
        timeout = random.uniform(0.1, 5) if random.random() < 0.1 else 60.0
        model = f"{family}-{behaviour}--{random.getrandbits(60):x}"
        tally.take(
            raw_client, behaviour, await outcome_of(random.choice(bridges), raw_client, model, timeout)
        )


async def outcome_of(bridge: Bridge, raw_client: RawClient, model: str, timeout: float) -> str:
    try:
        answer = await asyncio.wait_for(
            asked(bridge, raw_client, model, stream=random.random() < 0.9), timeout
        )
    except TimeoutError:
        return "left" if timeout < 60 else "no end"
    except OSError as error:
        return f"connection: {type(error).__name__}"
    if answer.status in (503, 529):
        return "refused: busy"
    if answer.ended_well and not answer.failed:
        return "whole"
    return "failed legally" if answer.ended_legally else "no end"


async def asked(bridge: Bridge, raw_client: RawClient, model: str, *, stream: bool) -> Answer:
    host, port = bridge.address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        path, fields = raw_client.request(model, stream)
        body = json.dumps(fields).encode()
        lines = [
            f"POST {path} HTTP/1.1",
            "Host: b",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        lines += [f"{name}: {value}" for name, value in raw_client.headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        head, _, come = (await reader.read()).partition(b"\r\n\r\n")
        return Answer(raw_client, int(head[9:12] or 0), {}, unframed(head, come), stream)
    except ValueError:  # truncated before it began
        return Answer(raw_client, 0, {}, b"{}", stream)
    finally:
        writer.close()


def unframed(head: bytes, come: bytes) -> bytes:
    framing: BodyFraming = Chunked() if b"chunked" in head.lower() else Sized(len(come))
    body = framing.feed(come)
    return body if framing.done else b""


# --- measurements ------------------------------------------------------------------------------------


@dataclass
class Watch:
    """Samples of the workers' memory over time."""

    samples: list[tuple[float, float]] = field(default_factory=list)

    async def follow(self, bridges: list[Bridge], until: float) -> None:
        began = time.monotonic()
        while time.monotonic() < until:
            megabytes = sum(resident(worker) for bridge in bridges for worker in bridge.workers())
            self.samples.append((time.monotonic() - began, megabytes))
            await asyncio.sleep(BETWEEN_SAMPLES)

    def growth(self) -> float:
        """Return the growth in MB per ten minutes after the warm-up."""
        warm = [sample for sample in self.samples if sample[0] > WARM_UP * self.samples[-1][0]]
        times, sizes = zip(*warm, strict=True)
        return statistics.linear_regression(times, sizes).slope * 600


def resident(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):  # the worker has just ended
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def reload_now_and_then(bridges: list[Bridge], until: float, every: float) -> None:
    while every and time.monotonic() + every < until:
        await asyncio.sleep(every)
        for bridge in bridges:
            bridge.signal(signal.SIGHUP)


async def load(bridges: list[Bridge], arguments: argparse.Namespace) -> tuple[Tally, Watch]:
    tally, watch = Tally(), Watch()
    until = time.monotonic() + arguments.seconds
    families = FAMILIES[: arguments.upstreams]
    clients = [keep_asking(bridges, families, until, tally) for _ in range(arguments.streams)]
    await asyncio.gather(
        *clients, watch.follow(bridges, until), reload_now_and_then(bridges, until, arguments.reload)
    )
    return tally, watch


@contextmanager
def running_bridges(count: int, upstreams: Sequence[Evil]) -> Iterator[tuple[list[Bridge], str | None]]:
    """The bridges, and the address of their database if they share one."""
    settings, url = {**SETTINGS, "GOOGLE_GEMINI_BASE_URL": upstreams[0].address}, None
    with ExitStack() as stack:
        if len(upstreams) > 1:
            folder = Path(stack.enter_context(TemporaryDirectory())) / "config"
            settings["BRIDGE_CONFIG_DIR"] = config_with_rows(folder, *upstreams[1:])
        if count > 1:
            url = stack.enter_context(postgres_server()).new_database()
            upgrade(url)
            settings |= {**COUNT_STREAMS, "BRIDGE_STATE_URL": url}
        yield [stack.enter_context(gunicorn_bridge(**settings)) for _ in range(count)], url


def left_in_database(url: str, bridges: list[Bridge]) -> list[str]:
    """Return what is wrong with the shared state when all answers have ended."""
    database = Database(url, patience=10)

    def number(query: str) -> int:
        return int(database.run(query)[0][0])

    def rows() -> int:
        return number("SELECT count(*) FROM gemini_bridge.request WHERE outcome = 'completed'")

    def leases() -> int:
        return number("SELECT count(*) FROM gemini_bridge.running")

    lines = [line for bridge in bridges for line in bridge.requests(outcome="completed")]
    logged = sum("upstream_model" in line for line in lines)
    wrong = [] if eventually(lambda: rows() == logged > 0, 15) else [f"{logged} answers, {rows()} usage rows"]
    if not eventually(lambda: leases() == 0, 15):
        wrong.append(f"{leases()} leases of running answers did not end")
    return wrong


def verdict(
    bridges: list[Bridge],
    upstreams: Sequence[Evil],
    tally: Tally,
    watch: Watch,
    arguments: argparse.Namespace,
) -> list[str]:
    """Return the errors of the run."""
    wrong = [f"{len(tally.lost)} streams without an end: {Counter(tally.lost)}"] if tally.lost else []
    lost = [line for bridge in bridges for line in bridge.requests() if line["outcome"] == "lost"]
    if lost:
        wrong.append(f"{len(lost)} answers lost, says the log")
    lines = [line for bridge in bridges for line in bridge.lines().splitlines()]
    failures = [line for line in lines if "Traceback" in line or '"exception"' in line]
    if failures:
        wrong.append(f"the log holds {len(failures)} exceptions, first this one: {failures[0]}")
    if not eventually(lambda: opened(upstreams) <= 2 * arguments.streams, 15):
        wrong.append(f"{opened(upstreams)} upstream connections are open")
    if arguments.seconds >= SHORTEST_FOR_A_SLOPE and not arguments.reload and watch.growth() > MOST_GROWTH:
        wrong.append(f"memory grew by {watch.growth():.2f} MB in ten minutes")
    return wrong


def opened(upstreams: Sequence[Evil]) -> int:
    return sum(upstream.open for upstream in upstreams)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--bridges", type=int, default=1, help="several share one PostgreSQL server")
    parser.add_argument("--upstreams", type=int, choices=(1, 3), default=1)
    parser.add_argument("--reload", type=float, default=0, help="SIGHUP every so many seconds")
    arguments = parser.parse_args()
    behaviours = {**FAULTS, "talk": talk}
    upstreams = [Evil(behaviours), Evil(behaviours, chat_text), Evil(behaviours, chat_text)]
    upstreams = upstreams[: arguments.upstreams]
    with running_bridges(arguments.bridges, upstreams) as (bridges, database):
        tally, watch = asyncio.run(load(bridges, arguments))
        wrong = verdict(bridges, upstreams, tally, watch, arguments)
        wrong += left_in_database(database, bridges) if database else []
        descriptors = sum(bridge.descriptors() for bridge in bridges)
    sizes = [size for _, size in watch.samples]
    print(f"{arguments.streams} streams for {arguments.seconds:g} s: {sum(tally.outcomes.values())} answers")
    for outcome, count in tally.outcomes.most_common():
        print(f"  {count:7} {outcome}")
    print(
        f"workers' memory: {sizes[0]:.1f} MB at first, {max(sizes):.1f} at most, {sizes[-1]:.1f} at the end,"
    )
    print(
        f"  {watch.growth():+.2f} MB in ten minutes after the warm-up; {descriptors} descriptors at the end"
    )
    print(
        "\n".join(f"WRONG: {each}" for each in wrong)
        or "VERDICT: every stream ended, nothing was left behind"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
