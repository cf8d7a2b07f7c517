"""JSON from clients and upstreams through the whole conversion: only the bridge's own errors are allowed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from conversations import CONVERSATIONS
from transcripts import ForgetfulSignatureStore, Run, counting_ids

from bridge.errors import BridgeError, IllegalTransition, InternalError
from bridge.gemini.conversation import conversation_id
from bridge.gemini.model_adapter import adapt_request
from bridge.gemini.types import GenerateRequest
from bridge.guards.guard_runner import GuardRunner
from bridge.protocols import PROTOCOLS
from bridge.protocols.base import Event, Protocol
from bridge.protocols.json_reading import reject_deep_nesting
from bridge.upstream.masking import Mask
from bridge.upstream.payloads import chunks_in, request_bytes
from bridge.web.routes import _json_object, validated
from tests.attacks.growing_requests import CAPABILITIES, GUARDS
from tests.fuzz.wire_targets import pieces_of

#: Errors that mean a defect in the bridge, not in its input.
OUR_FAULT = (IllegalTransition, InternalError)


def request(protocol: Protocol, data: bytes) -> None:
    """Convert a client's body to Gemini's."""
    caller = CONVERSATIONS[protocol.name].callers[""]
    try:
        with reject_deep_nesting():
            body = validated(protocol.schema, _json_object(data))
            asked = protocol.to_gemini(body, caller)
            conversation_id("owner", None, body, "", asked.request)
            sent = _guarded(asked.request)
            request_bytes(
                adapt_request(
                    sent, "gemini-test", CAPABILITIES, ForgetfulSignatureStore(), counting_ids().new_id
                )[0]
            )
    except OUR_FAULT:
        raise
    except BridgeError as error:
        _check_error(protocol, error)


def _guarded(asked: GenerateRequest) -> GenerateRequest:
    watch = GuardRunner(GUARDS, "request")
    judged = watch.request(asked)
    _no_guard_failed(watch)
    return judged if isinstance(judged, GenerateRequest) else asked


def _no_guard_failed(watch: GuardRunner) -> None:
    """A failed guard passes the call and logs the exception."""
    assert not [note for note in watch.notes if note.endswith("failed")], watch.notes


def _check_error(protocol: Protocol, error: BridgeError) -> None:
    assert 400 <= protocol.error_status(error) < 600
    assert protocol.error_body(error, "req_1")


def answer(protocol: Protocol, data: bytes) -> None:
    """Convert an upstream's bytes to the client's; every split must give the same result."""
    whole, pieces = pieces_of(data)
    one = _written(protocol, [whole])
    assert _written(protocol, pieces) == one, "the answer depends on where it is cut"


def _written(protocol: Protocol, pieces: list[bytes]) -> bytes:
    conversation = CONVERSATIONS[protocol.name]
    run = Run(protocol, conversation.opening, caller=conversation.callers[""])
    watch = GuardRunner(GUARDS, "request")
    events: list[Event] = []
    try:
        for batch in chunks_in(pieces, "gemini-test", Mask("secret-of-the-upstream")):
            events += run.machine.feed([watch.feed(run.adapter.feed(chunk)) for chunk in batch])
        events += run.machine.finish()
    except OUR_FAULT:
        raise
    except BridgeError as error:
        events += run.machine.fail(error)
    _no_guard_failed(watch)
    if run.machine.error is None:
        run.machine.fold(events)
    return protocol.framing(run.asked).encode_events(events)


def _named() -> dict[str, Callable[[bytes], None]]:
    kinds: tuple[tuple[str, Callable[..., Any]], ...] = (("request", request), ("answer", answer))
    return {f"{kind}-{each.name}": partial(target, each) for kind, target in kinds for each in PROTOCOLS}


TARGETS = _named()
