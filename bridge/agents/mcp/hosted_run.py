"""One answer with tools of servers that the request names: a run without an agent's name.

First the servers list their tools, then the calls that the client has approved are made, then the model is
asked. A call that the client wants to approve ends the answer with a request for approval.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue

from bridge.agents.call_policy import CallPolicy, Decision, Verdict
from bridge.agents.cancellation import Cancellation
from bridge.agents.mcp.server import McpServer, McpServerInRun, McpServerTool
from bridge.agents.run_limits import RunLimits
from bridge.agents.scheduler import CallBegan, Scheduler
from bridge.agents.tool import Invocation, Tool, ToolRegistry, ToolResult, ToolSourceFailed, failed
from bridge.agents.tool_call import ToolCall
from bridge.agents.tool_loop import AskModel, ToolLoop
from bridge.gemini import types
from bridge.gemini.hosted_servers import HostedRequest, HostedServer
from bridge.gemini.hosted_tools import Hosted, HostedCall, HostedKind, HostedResult, hosted_part
from bridge.gemini.types import MODEL, USER, Candidate, Chunk, Content, FunctionCall, GenerateRequest, Part
from bridge.upstream.base import TICK, AnswerStream

LIMITS = RunLimits(rounds=12, seconds=300.0)
NAME_TAKEN = "mcp.tool_name_taken"
CANNOT_ASK = "mcp.approval_not_possible"
Batches = Iterator[Sequence[Chunk]]


class _CallCount:
    """How many calls the request allows."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        self._made = 0
        self._lock = threading.Lock()

    def take(self) -> bool:
        with self._lock:
            self._made += 1
            return self.most is None or self._made <= self.most


class _CountedTool(Tool):
    def __init__(self, tool: Tool, count: _CallCount) -> None:
        self.description = tool.description
        self._tool = tool
        self._count = count

    def invoke(self, invocation: Invocation) -> ToolResult:
        if self._count.take():
            return self._tool.invoke(invocation)
        most = self._count.most
        return failed(f"This call was not made: the request allows {most} calls (max_tool_calls).")


class _Approved:
    """The client has approved these calls already."""

    time_limit = 1.0

    def ask(self, call: ToolCall) -> None:
        pass

    def verdict(self, call: ToolCall) -> Verdict | None:
        return Verdict(Decision.ALLOW)


class _Listing:
    """One server that lists its tools, in a thread of its own."""

    def __init__(self, named: HostedServer, source: McpServerInRun, cancellation: Cancellation) -> None:
        self.named = named
        self._outcome: SimpleQueue[Sequence[McpServerTool] | str] = SimpleQueue()
        self._work = (source, cancellation)
        threading.Thread(target=self._list, name="mcp-list", daemon=True).start()

    def _list(self) -> None:
        source, cancellation = self._work
        try:
            self._outcome.put(source.tools(cancellation))
        except ToolSourceFailed as error:
            self._outcome.put(str(error))

    def outcome(self) -> Iterator[Sequence[McpServerTool] | str | None]:
        """The tools, or why there are none; None at every tick before."""
        while True:
            try:
                yield self._outcome.get(timeout=TICK)
                return
            except Empty:
                yield None


class HostedRun(AnswerStream):
    asks_model = True

    def __init__(
        self,
        request: GenerateRequest,
        hosted: HostedRequest,
        servers: Sequence[tuple[HostedServer, McpServer]],
        ask: AskModel,
        policy: CallPolicy,
        new_id: Callable[[str], str],
    ) -> None:
        super().__init__()
        self._conversation = request
        self._hosted = hosted
        self._ask = ask
        self._policy = policy
        self._new_id = new_id
        self._cancellation = Cancellation()
        self._sources = [(named, self._source(named, server)) for named, server in servers]
        self._count = _CallCount(hosted.most_calls)
        self._registry = ToolRegistry()
        self._asking: set[str] = set()  #: the tools whose calls the client approves
        self._loop: ToolLoop | None = None

    def _source(self, named: HostedServer, server: McpServer) -> McpServerInRun:
        listed = self._hosted.listed.get(named.label)
        return McpServerInRun(server, named.label, listed, unattended=True)

    def _note(self, name: str) -> None:
        self.notes[name] += 1

    # --- what an exchange reads ------------------------------------------------------------------------

    @property
    def request(self) -> GenerateRequest | None:  # type: ignore[override]
        return self._loop.request if self._loop else None

    @property
    def model_version(self) -> str | None:  # type: ignore[override]
        return self._loop.model_version if self._loop else None

    @property
    def losses(self) -> Sequence[str]:  # type: ignore[override]
        return self._loop.losses if self._loop else ()

    @property
    def waited(self) -> float:  # type: ignore[override]
        return self._loop.waited if self._loop else 0.0

    def close(self) -> None:
        self._cancellation.cancel()
        if self._loop is not None:
            self._loop.close()
            self._take_leave(self._loop)

    def __iter__(self) -> Batches:
        yield from self._list()
        yield from self._call_approved()
        scheduler = Scheduler(self._registry, self._policy, self._new_id)
        self._loop = ToolLoop(self._with_tools(), self._ask, scheduler, LIMITS, is_hosted=self._runs_at_once)
        self._loop.notes, self._loop.replaced_errors = self.notes, self.replaced_errors
        for chunks in self._loop:
            yield [self._with_approvals(chunk) for chunk in chunks]
        self._take_leave(self._loop)

    def _take_leave(self, loop: ToolLoop) -> None:
        self.discarded, self.upstream = loop.discarded, loop.upstream

    # --- the tools -------------------------------------------------------------------------------------

    def _list(self) -> Batches:
        listings = [_Listing(named, source, self._cancellation) for named, source in self._sources]
        for listing in listings:
            for outcome in listing.outcome():
                yield () if outcome is None else self._listed(listing.named, outcome)

    def _listed(self, named: HostedServer, outcome: Sequence[McpServerTool] | str) -> Sequence[Chunk]:
        offered = [] if isinstance(outcome, str) else [tool for tool in outcome if _is_offered(named, tool)]
        for tool in offered:
            self._add(named, tool)
        if named.label in self._hosted.listed:
            return ()
        own_id, kind, broken = self._new_id(""), HostedKind.TOOL_LIST, isinstance(outcome, str)
        response = {"error": outcome} if broken else {"tools": [tool.listed for tool in offered]}
        called = HostedCall(own_id, named.label, kind=kind)
        answered = HostedResult(own_id, named.label, response=response, is_error=broken, kind=kind)
        return [_chunk(called), _chunk(answered)]

    def _add(self, named: HostedServer, tool: Tool) -> None:
        """A tool of the client keeps its name."""
        name, description = tool.description.function_name, tool.description
        declared = (each.name for group in self._conversation.tools for each in group.functions)
        if name in self._registry or name in declared:
            self._note(NAME_TAKEN)
            return
        asks = named.asks_for(description.name, description.read_only)
        if asks and not self._hosted.can_ask:
            self._note(CANNOT_ASK)
            return
        self._registry.add(_CountedTool(tool, self._count))
        if asks:
            self._asking.add(name)

    def _with_tools(self) -> GenerateRequest:
        request, added = self._conversation, self._registry.declarations()
        if not added:
            return request
        functions = tuple(each for group in request.tools for each in group.functions)
        others = tuple(group for group in request.tools if not group.functions)
        return replace(request, tools=(types.Tool((*functions, *added)), *others))

    # --- approvals -------------------------------------------------------------------------------------

    def _runs_at_once(self, call: FunctionCall) -> bool:
        """Whether the bridge executes a call without asking the client."""
        tool = self._registry.find(call.name)
        if tool is None or call.name in self._asking:
            return False
        asked = self._hosted.can_ask and self._policy.verdict(call, tool).decision is Decision.ASK
        return not asked

    def _with_approvals(self, chunk: Chunk) -> Chunk:
        """Calls of the bridge's tools that are left over as requests for approval."""
        if not any(self._awaits_approval(part) for each in chunk.candidates for part in each.parts):
            return chunk
        return replace(chunk, candidates=tuple(map(self._asked_for, chunk.candidates)))

    def _awaits_approval(self, part: Part) -> bool:
        return isinstance(part.data, FunctionCall) and part.data.name in self._registry

    def _asked_for(self, candidate: Candidate) -> Candidate:
        if candidate.content is None:
            return candidate
        parts = tuple(
            self._request_for(part) if self._awaits_approval(part) else part for part in candidate.parts
        )
        return replace(candidate, content=replace(candidate.content, parts=parts))

    def _request_for(self, part: Part) -> Part:
        assert isinstance(part.data, FunctionCall)
        call, tool = part.data, self._registry.find(part.data.name)
        assert tool is not None
        named = (tool.description.server, tool.description.name)
        own_id = call.id or self._new_id("call_gb")
        return hosted_part(HostedCall(own_id, *named, call.args or {}, HostedKind.APPROVAL), part.signature)

    def _call_approved(self) -> Batches:
        """The calls that the client approved go to their tools, and into the conversation."""
        approved = self._hosted.approved
        if not approved:
            return
        scheduler = Scheduler(self._registry, self._policy, self._new_id, approver=_Approved())
        calls = scheduler.calls([_function_call(call) for call in approved])
        for event in scheduler.run(calls):
            if event is None:
                yield ()
            elif isinstance(event, CallBegan):
                yield [_chunk(event.call.hosted_call())]
            else:
                self.notes.update(event.call.notes)
                yield [_chunk(event.call.hosted_result())]
        made = tuple(Part(_function_call(call)) for call in approved)
        results = tuple(Part(call.response()) for call in calls)
        contents = (*self._conversation.contents, Content(MODEL, made), Content(USER, results))
        self._conversation = replace(self._conversation, contents=contents)


def _function_call(call: HostedCall) -> FunctionCall:
    return FunctionCall(call.function_name, call.arguments, call.id)


def _is_offered(named: HostedServer, tool: Tool) -> bool:
    return named.offers(tool.description.name, tool.description.read_only)


def _chunk(hosted: Hosted) -> Chunk:
    return Chunk((Candidate(Content(MODEL, (hosted_part(hosted),)), index=0),))
