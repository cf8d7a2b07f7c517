"""What a request costs the bridge, beside a bare relay of the same stream, in one run: `make bench`

CPU time of the whole process tree is measured, since it stands noise better than the clock does. Read the
ratios; the milliseconds belong to the machine. Differences below 1.4 times are within what repeated runs
show.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import requests

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = HERE / "results.json"
TOOLS = 40
TURNS = 30


class Scenario(NamedTuple):
    name: str
    chunks: int
    stream: bool
    large: bool
    requests: int


SCENARIOS = (
    Scenario("short whole answer", 2, stream=False, large=False, requests=400),
    Scenario("200 chunks in a burst", 200, stream=True, large=False, requests=150),
    Scenario("large agent request", 5, stream=True, large=True, requests=100),
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- requests ----------------------------------------------------------------------------------------


def schema(number: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            f"argument_{each}": {"type": "string", "description": "text " * 20} for each in range(6)
        },
        "required": [f"argument_{number % 6}"],
    }


def arguments(turn: int) -> str:
    """Other ones each time: a repetition would be taken for a loop."""
    return json.dumps({"step": turn})


def chat(model: str, large: bool) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
    if not large:
        return {"model": model, "messages": messages}
    for turn in range(TURNS):
        call = {
            "id": f"call_{turn}",
            "type": "function",
            "function": {"name": "tool_1", "arguments": arguments(turn)},
        }
        messages.append({"role": "assistant", "content": "Looking. " * 20, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": f"result {turn} " * 900})
    functions = [{"name": f"tool_{each}", "parameters": schema(each)} for each in range(TOOLS)]
    tools = [{"type": "function", "function": function} for function in functions]
    return {"model": model, "messages": messages, "tools": tools}


def responses(model: str, large: bool) -> dict[str, Any]:
    items: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
    body: dict[str, Any] = {"model": model, "input": items, "store": False}
    if not large:
        return body
    for turn in range(TURNS):
        call = {
            "type": "function_call",
            "call_id": f"call_{turn}",
            "name": "tool_1",
            "arguments": arguments(turn),
        }
        result = {
            "type": "function_call_output",
            "call_id": f"call_{turn}",
            "output": f"result {turn} " * 900,
        }
        items += [{"role": "assistant", "content": "Looking. " * 20}, call, result]
    tools = [
        {"type": "function", "name": f"tool_{each}", "parameters": schema(each)} for each in range(TOOLS)
    ]
    return {**body, "tools": tools}


def messages(model: str, large: bool) -> dict[str, Any]:
    said: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
    body: dict[str, Any] = {"model": model, "max_tokens": 1000, "messages": said}
    if not large:
        return body
    for turn in range(TURNS):
        call = {"type": "tool_use", "id": f"call_{turn}", "name": "tool_1", "input": {"step": turn}}
        result = {"type": "tool_result", "tool_use_id": f"call_{turn}", "content": f"result {turn} " * 900}
        said.append({"role": "assistant", "content": [{"type": "text", "text": "Looking. " * 20}, call]})
        said.append({"role": "user", "content": [result]})
    return {
        **body,
        "tools": [{"name": f"tool_{each}", "input_schema": schema(each)} for each in range(TOOLS)],
    }


PROTOCOLS = {
    "chat": ("/v1/chat/completions", chat),
    "responses": ("/v1/responses", responses),
    "messages": ("/v1/messages", messages),
}


# --- processes ---------------------------------------------------------------------------------------


@contextmanager
def running(command: list[str], port: int, **environment: str) -> Iterator[int]:
    quiet = {name: value for name, value in os.environ.items() if not name.startswith(("BRIDGE_", "GEMINI_"))}
    process = subprocess.Popen(command, cwd=ROOT, env=quiet | environment, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        time.sleep(1.5)  # workers start after the listener
        yield process.pid
    finally:
        process.terminate()
        process.wait(20)


def tree(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in tree(int(child)))]


def cpu_seconds(pid: int) -> float:
    ticks = 0
    for each in tree(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def cost(pid: int, url: str, body: bytes, count: int) -> float:
    """Milliseconds of CPU for each request, after some that warm it up."""
    with requests.Session() as session:
        for number in range(count + 20):
            if number == 20:
                before = cpu_seconds(pid)
            answer = session.post(url, data=body, timeout=60)
            assert answer.ok, answer.text
    return (cpu_seconds(pid) - before) * 1000 / count


# --- the table ---------------------------------------------------------------------------------------


def measured() -> dict[str, dict[str, float]]:
    fake, floor, bridge = free_port(), free_port(), free_port()
    upstream = f"http://127.0.0.1:{fake}"
    gunicorn = [sys.executable, "-m", "gunicorn"]
    bare = [
        *gunicorn,
        "-k",
        "gthread",
        "--threads",
        "64",
        "-b",
        f"127.0.0.1:{floor}",
        "--chdir",
        "bench",
        "floor:app",
    ]
    with ExitStack() as stack, tempfile.TemporaryDirectory() as state:
        stack.enter_context(running([sys.executable, "bench/fake_gemini.py", str(fake)], fake))
        floor_pid = stack.enter_context(running(bare, floor, BENCH_UPSTREAM=upstream))
        environment = {
            "GEMINI_API_KEY": "bench-key-0000",
            "GOOGLE_GEMINI_BASE_URL": upstream,
            "CODER_AGENT_PORT": str(bridge),
            "BRIDGE_STATE_DIR": state,
            "BRIDGE_SERVER__WORKERS": "1",
            "BRIDGE_LOG__LEVEL": "warning",
        }
        bridge_pid = stack.enter_context(
            running([*gunicorn, "-c", "gunicorn.conf.py", "app:app"], bridge, **environment)
        )
        return {
            scenario.name: costs(scenario, (floor_pid, floor), (bridge_pid, bridge)) for scenario in SCENARIOS
        }


def costs(scenario: Scenario, floor: tuple[int, int], bridge: tuple[int, int]) -> dict[str, float]:
    model = f"gemini-bench-n{scenario.chunks}"
    method = f"{model}:streamGenerateContent?alt=sse" + ("" if scenario.stream else "&whole=1")
    url = f"http://127.0.0.1:{floor[1]}/v1beta/models/{method}"
    found = {
        "floor": cost(floor[0], url, json.dumps(chat(model, scenario.large)).encode(), scenario.requests)
    }
    for name, (path, make) in PROTOCOLS.items():
        body = json.dumps({**make(model, scenario.large), "stream": scenario.stream}).encode()
        found[name] = cost(bridge[0], f"http://127.0.0.1:{bridge[1]}{path}", body, scenario.requests)
    return found


def main() -> None:
    table = measured()
    RESULTS.write_text(json.dumps(table, indent=2) + "\n")
    print(f"{'CPU ms per request':24}{'floor':>8}" + "".join(f"{name:>20}" for name in PROTOCOLS))
    for scenario, found in table.items():
        ratios = "".join(
            f"{found[name]:>11.2f} ({found[name] / found['floor']:4.1f} x)" for name in PROTOCOLS
        )
        print(f"{scenario:24}{found['floor']:>8.2f}{ratios}")


if __name__ == "__main__":
    main()
