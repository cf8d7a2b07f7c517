"""What the context edits and steps would do with a client's request. Nothing is sent to an upstream.

The request takes its ordinary way: the protocol's schema and converter, then ContextFitting. Only the
upstream's count is replaced by the estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from bridge.context import EDITS, LADDER
from bridge.context.base import ClientEdit, ContextStep
from bridge.context.editor_context import EditorContext
from bridge.context.estimate import request_tokens
from bridge.context.history import history_of
from bridge.context.window import Window, window_of
from bridge.errors import ContextOverflow, InvalidRequest
from bridge.exchange.context_fitting import ContextFitting
from bridge.gemini.context_steps import StepTaken
from bridge.gemini.types import GenerateRequest, JsonObject
from bridge.observe.record import Record
from bridge.protocols import PROTOCOLS
from bridge.protocols.base import Caller, ConvertedRequest, Protocol
from bridge.protocols.envelope import validated
from bridge.settings import Settings
from bridge.settings.context import ALL
from bridge.settings.value import OFF, suggestion

APPLIED, NOTHING, NOT_NEEDED, SWITCHED_OFF, NOT_ASKED, SHADOW = (
    "applied",
    "nothing to do",
    "not needed",
    "off",
    "not asked for",
    "shadow",
)
_CONTENT_FIELDS = {"contents": "gemini_native", "prompt": "openai_completions"}
#: Fields and blocks of Messages that Chat Completions does not have.
_MESSAGES_FIELDS = ("system", "thinking", "context_management", "stop_sequences", "top_k")
_MESSAGES_BLOCKS = ("tool_use", "tool_result", "thinking")
#: Fields of Interactions that Responses does not have.
_INTERACTIONS_FIELDS = ("system_instruction", "generation_config", "previous_interaction_id")


class StepExplained(NamedTuple):
    name: str
    state: str
    changes: int
    before: int  #: estimated tokens
    after: int
    first: int | None  #: the number of the first turn that the step changed


@dataclass(frozen=True, slots=True)
class Explanation:
    protocol: str
    model: str
    window: Window | None  #: None if it is not known
    compress: str  #: the setting in force; the explanation assumes `all`
    turns: int
    tokens: int  #: estimated tokens of the request as the client sent it
    steps: tuple[StepExplained, ...]
    error: str = ""  #: why the request cannot be made to fit


def explain(body: JsonObject, protocol: str | None, model: str | None, settings: Settings) -> Explanation:
    """Raises InvalidRequest for a body that the protocol refuses."""
    chosen = named_protocol(protocol) if protocol else recognised_protocol(body)
    named = model or body.get("model") or settings.models.default
    caller = Caller(path={"model": str(named), "method": "generateContent"})
    converted = chosen.to_gemini(validated(chosen.schema, {**body, "model": named}), caller)
    resolved = settings.models.resolve(converted.request.model)
    return _Explaining(settings, resolved).of(chosen, converted)


def named_protocol(name: str) -> Protocol:
    names = {protocol.name: protocol for protocol in PROTOCOLS}
    if name not in names:
        raise InvalidRequest(f"There is no protocol {name!r}; {suggestion(name, names)}", param="protocol")
    return names[name]


def recognised_protocol(body: JsonObject) -> Protocol:
    for field, name in _CONTENT_FIELDS.items():
        if field in body:
            return named_protocol(name)
    if "messages" in body:
        return named_protocol("anthropic_messages" if _is_of_messages(body) else "openai_chat")
    if "input" in body:
        interactions = any(field in body for field in _INTERACTIONS_FIELDS)
        return named_protocol("gemini_interactions" if interactions else "openai_responses")
    raise InvalidRequest("The body has neither messages, input, contents nor prompt", param="protocol")


def _is_of_messages(body: JsonObject) -> bool:
    if any(field in body for field in _MESSAGES_FIELDS):
        return True
    messages = [each for each in body["messages"] or () if isinstance(each, dict)]
    blocks = [
        block for each in messages if isinstance(each.get("content"), list) for block in each["content"]
    ]
    return any(isinstance(block, dict) and block.get("type") in _MESSAGES_BLOCKS for block in blocks)


class _Explaining:
    def __init__(self, settings: Settings, model: str) -> None:
        self._settings = replace(settings.context, compress=ALL)
        self._compress = settings.context.compress
        self._fitting = ContextFitting(self._settings, settings.editors)
        self._model = model
        self._capabilities = settings.models.capabilities(model)

    def of(self, protocol: Protocol, converted: ConvertedRequest) -> Explanation:
        request, record, error = converted.request, Record("explain", "", ""), ""
        try:
            edited = self._fitting.edited(request, self._model, record)
            self._fitting.fitted(edited, self._model, self._capabilities, request_tokens, record)
        except ContextOverflow as overflow:
            error = overflow.message
        return Explanation(
            protocol.name,
            self._model,
            window_of(request, self._capabilities, self._settings),
            self._compress,
            len(history_of(request)[0].turns),
            request_tokens(request),
            tuple(self._steps(request, record)),
            error,
        )

    def _steps(self, request: GenerateRequest, record: Record) -> Iterator[StepExplained]:
        """All edits and steps in the order in which they run."""
        taken = {step.name: step for step in (*record.context_steps, *record.steps_in_shadow)}
        wished = {wish.step for wish in request.context}
        tokens = request_tokens(request)
        for place, kind in enumerate(kinds := (*EDITS, *LADDER)):
            step = taken.get(kind.name)
            went_on = kind in EDITS or any(later.name in taken for later in kinds[place:])
            yield _explained(kind.name, APPLIED if step else self._idle(kind, wished, went_on), tokens, step)
            tokens -= step.saved if step else 0
        yield self._of_editors(taken, tokens)

    def _idle(self, kind: type[ContextStep], wished: set[str], went_on: bool) -> str:
        """Why a step did nothing."""
        if kind.name not in wished and not kind(self._settings).is_on():
            return NOT_ASKED if issubclass(kind, ClientEdit) else SWITCHED_OFF
        return NOTHING if went_on else NOT_NEEDED

    def _of_editors(self, taken: Mapping[str, StepTaken], tokens: int) -> StepExplained:
        name = EditorContext.name
        if shadow := taken.get(f"{name}_shadow"):
            return _explained(name, SHADOW, tokens, shadow)
        idle = SWITCHED_OFF if self._settings.editor_context == OFF else NOTHING
        return _explained(name, APPLIED if name in taken else idle, tokens, taken.get(name))


def _explained(name: str, state: str, tokens: int, step: StepTaken | None) -> StepExplained:
    if step is None:
        return StepExplained(name, state, 0, tokens, tokens, None)
    return StepExplained(name, state, step.changes, tokens, tokens - step.saved, step.first + 1)
