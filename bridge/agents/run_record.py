"""The record of a run, line by line: what the run is, each round, and how it ended.

Without texts a line says what was called, for how long and with how much text. With texts it also has the
contents, from which the run can be resumed: the first request, and what each finished round added to it. A
store that fails ends no run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from bridge.agents.end_reason import EndReason
from bridge.agents.tool_call import ToolCall
from bridge.agents.tool_loop import RunObserver
from bridge.gemini.types import Content, GenerateRequest, JsonObject, Usage
from bridge.gemini.wire import content_from_json, content_to_json, request_from_json, request_to_json
from bridge.state.agent_run_store import AgentRunStore, RunStarter
from bridge.state.errors import StorageError

log = logging.getLogger(__name__)

OFF, FULL = "off", "full"


def recorder(store: AgentRunStore, mode: str, who: RunStarter) -> Callable[[str, str], RunObserver]:
    """Makes the observer of each run. `mode`: off, structure or full."""
    if mode == OFF:
        return lambda _run_id, _agent: RunObserver()
    return lambda run_id, agent: RunRecorder(store, run_id, agent, who, texts=mode == FULL)


class RunRecorder(RunObserver):
    def __init__(
        self,
        store: AgentRunStore,
        run_id: str,
        agent: str,
        who: RunStarter,
        *,
        texts: bool,
        number: int = 0,
    ) -> None:
        """`number` is the next line; a resumed run has its first lines already."""
        self._store = store
        self._run_id = run_id
        self._agent = agent
        self._who = who
        self._texts = texts
        self._number = number
        self._round_began = time.monotonic()

    def run_began(self, request: GenerateRequest) -> None:
        if self._number:
            return
        head = {"run": self._run_id, "agent": self._agent, "model": request.model, "began": time.time()}
        line: dict[str, Any] = {**head, **self._who._asdict()}
        if self._texts:
            line["request"] = request_to_json(request)
            line["native"] = request.native
        self._add(line)

    def round_ended(self, turns: Sequence[Content], calls: Sequence[ToolCall], usage: Usage) -> None:
        now = time.monotonic()
        line: dict[str, Any] = {
            "round": self._number,
            "seconds": round(now - self._round_began, 3),
            "tokens": usage.total,
            "calls": list(map(_described, calls)),
        }
        self._round_began = now
        if self._texts:
            line["contents"] = list(map(content_to_json, turns))
            line["results"] = [dict(call.result.response) for call in calls if call.result is not None]
        self._add(line)

    def run_ended(self, reason: EndReason, usage: Usage) -> None:
        self._add({"end": str(reason), "ended": time.time(), "tokens": usage.total})

    def _add(self, line: JsonObject) -> None:
        number, self._number = self._number, self._number + 1
        try:
            self._store.add(self._run_id, number, orjson.dumps(line, default=_plain))
        except (StorageError, orjson.JSONEncodeError) as error:
            log.warning("run not recorded", extra={"run": self._run_id, "reason": type(error).__name__})


def _described(call: ToolCall) -> dict[str, Any]:
    return {
        "name": call.call.name,
        "state": call.state.value,
        "seconds": round(call.seconds, 3),
        "characters": call.characters,
    }


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


# --- reading ------------------------------------------------------------------------------------------


class NotResumable(Exception):
    """The run cannot go on. The message says why."""


def read_lines(store: AgentRunStore, run_id: str) -> list[JsonObject]:
    return [orjson.loads(line) for line in store.lines(run_id)]


def last_request(lines: Sequence[JsonObject]) -> GenerateRequest:
    """The request with which the run goes on: the first one, and what its finished rounds added."""
    if not lines:
        raise NotResumable("there is no such run")
    if lines[-1].get("end") not in (None, str(EndReason.ABORTED), str(EndReason.ERROR)):
        raise NotResumable(f"it has ended: {lines[-1]['end']}")
    if "request" not in lines[0]:
        raise NotResumable('it was recorded without texts; set agent_runs.record = "full"')
    head = lines[0]
    request = request_from_json(str(head["model"]), head["request"])
    rounds = (content for line in lines[1:] for content in line.get("contents", ()))
    contents = (*request.contents, *map(content_from_json, rounds))
    return replace(request, contents=contents, native=head.get("native") is True)
