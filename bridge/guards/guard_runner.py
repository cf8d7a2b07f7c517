"""Runs the guards on one exchange: modes and counting.

The result of a guard in shadow mode is counted and then discarded. A guard that raises is counted too, and
its input passes unchanged.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from bridge.gemini.types import (
    Candidate,
    Chunk,
    FunctionCall,
    FunctionDeclaration,
    GenerateRequest,
    Part,
    TextChunk,
)
from bridge.guards import GUARDS
from bridge.guards.base import Blocked, Guard, NeedsApproval, NotUnderstood, ShortCircuit
from bridge.settings.guards import GuardSettings

log = logging.getLogger(__name__)


_ACTION_NAMES: dict[type, str] = {
    Blocked: "held_back",
    NeedsApproval: "asked",
    NotUnderstood: "unsure",
    FunctionCall: "changed",
}


class ActiveGuards:
    """The guards that the settings enable, created once at the start."""

    def __init__(self, settings: GuardSettings) -> None:
        modes = {guard: getattr(settings.modes, guard.name) for guard in GUARDS}
        active = [(guard(settings), modes[guard] == "enforce") for guard in GUARDS if modes[guard] != "off"]
        self.on_request = [each for each in active if type(each[0]).on_request is not Guard.on_request]
        self.on_call = [each for each in active if type(each[0]).on_call is not Guard.on_call]
        argv_arguments = [shell for shell in settings.shells if shell.form == "argv"]
        self.argv_arguments = {tool: shell.argument for shell in argv_arguments for tool in shell.tools}


class GuardRunner:
    """Runs the guards on one exchange. `notes` counts their actions."""

    def __init__(self, guards: ActiveGuards, request_id: str) -> None:
        self._guards = guards
        self._request_id = request_id
        self._text_sent = False  #: the client already got text
        #: Tools that share the name of an argv shell, but take a text.
        self._text_tools: frozenset[str] = frozenset()
        self.notes: Counter[str] = Counter()

    def request(self, request: GenerateRequest) -> GenerateRequest | ShortCircuit:
        declared = (function for tool in request.tools for function in tool.functions)
        self._text_tools = frozenset(
            each.name for each in declared if _declares_text(each, self._guards.argv_arguments)
        )
        for guard, enforced in self._guards.on_request:
            result = self._run(guard, request)
            if result is request:
                continue
            self._record_action(
                guard, enforced, "answered" if isinstance(result, ShortCircuit) else "changed"
            )
            if enforced and isinstance(result, ShortCircuit):
                return result
            if enforced and isinstance(result, GenerateRequest):
                request = result
        return request

    def for_token_count(self, request: GenerateRequest) -> GenerateRequest:
        """The request as it would be sent, for a token count. Actions are not recorded."""
        for guard, enforced in self._guards.on_request:
            result = self._run(guard, request)
            if enforced and isinstance(result, GenerateRequest):
                request = result
        return request

    def _run(self, guard: Guard, request: GenerateRequest) -> GenerateRequest | ShortCircuit:
        try:
            return guard.on_request(request)
        except Exception:
            self._record_failure(guard)
            return request

    def feed(self, chunk: Chunk) -> Chunk:
        if isinstance(chunk, TextChunk):
            self._text_sent = True
            return chunk
        for candidate in chunk.candidates:
            for part in candidate.parts:
                if isinstance(part.data, FunctionCall):
                    return self._check_calls(chunk)
                self._text_sent = self._text_sent or _is_visible_text(part)
        return chunk

    def _check_calls(self, chunk: Chunk) -> Chunk:
        return replace(chunk, candidates=tuple(map(self._check_candidate, chunk.candidates)))

    def _check_candidate(self, candidate: Candidate) -> Candidate:
        content = candidate.content
        if content is None or not _has_call(content.parts):
            return candidate
        return replace(candidate, content=replace(content, parts=tuple(map(self._check_part, content.parts))))

    def _check_part(self, part: Part) -> Part:
        if not isinstance(part.data, FunctionCall):
            self._text_sent = self._text_sent or _is_visible_text(part)
            return part
        result = self._check_call(part.data)
        if isinstance(result, Blocked):
            gap, self._text_sent = "\n\n" if self._text_sent else "", True
            return Part(gap + result.reason)  # drop the signature too: it belongs to the call
        return part if result is part.data else replace(part, data=result)

    def _check_call(self, call: FunctionCall) -> FunctionCall | Blocked:
        for guard, enforced in self._guards.on_call:
            if guard.argv_only and call.name in self._text_tools:
                continue
            try:
                result = guard.on_call(call)
            except Exception:
                self._record_failure(guard)
                continue
            if result is call:
                continue
            self._record_action(guard, enforced, _ACTION_NAMES[type(result)], call.name)
            if enforced and isinstance(result, Blocked):
                return result
            if enforced and isinstance(result, FunctionCall):
                call = result
        return call

    def _record_action(self, guard: Guard, enforced: bool, action: str, tool: str | None = None) -> None:
        mode = "enforce" if enforced else "shadow"
        self.notes[f"guard.{guard.name}.{action}" + ("" if enforced else ".shadow")] += 1
        seen = {"request_id": self._request_id, "guard": guard.name, "action": action, "mode": mode}
        log.info("guard acted", extra=seen if tool is None else {**seen, "tool": tool})

    def _record_failure(self, guard: Guard) -> None:
        self.notes[f"guard.{guard.name}.failed"] += 1
        log.exception("guard failed", extra={"request_id": self._request_id, "guard": guard.name})


def _declares_text(function: FunctionDeclaration, argv_arguments: Mapping[str, str]) -> bool:
    """Whether the tool declares its command as one text. Its schema overrides the settings for its name."""
    if function.name not in argv_arguments:
        return False
    found: Any = function.schema or function.extra.get("parameters")
    for name in ("properties", argv_arguments[function.name], "type"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return isinstance(found, str) and found.lower() == "string"


def _is_visible_text(part: Part) -> bool:
    return isinstance(part.data, str) and not part.thought and part.data != ""


def _has_call(parts: Iterable[Part]) -> bool:
    return any(isinstance(part.data, FunctionCall) for part in parts)
