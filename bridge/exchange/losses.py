"""The losses of a request: what the bridge drops from it, because Gemini has nothing like it.

Their names are counted in the record, and a response header names them to the client. In strict mode every
loss is an error instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bridge.errors import InvalidRequest
from bridge.gemini import losses as shared
from bridge.observe.record import Record
from bridge.protocols import PROTOCOLS
from bridge.protocols.base import Caller
from bridge.protocols.json_reading import invalid_field, quoted

STRICT = "x-bridge-strict"  #: the request header that selects strict mode
_STRICT_VALUES = {"0": False, "1": True}
MOST_EXPLAINED = 5  #: an error explains so many losses, and only counts the others

#: A sentence for each name. In a request, a text of the client may follow the name after a colon.
REQUEST_LOSSES: Mapping[str, str] = {
    **shared.REQUEST_LOSSES,
    **{name: text for protocol in PROTOCOLS for name, text in protocol.request_losses.items()},
}


class RequestLosses:
    """The losses of one request. `of_request` is called once, `of_attempt` for each model that gets the
    request."""

    def __init__(self, caller: Caller, record: Record) -> None:
        self.strict = is_strict(caller)
        self._record = record
        self._own: tuple[str, ...] = ()

    def of_request(self, names: Iterable[str]) -> None:
        """Count the losses of the conversion. Raises InvalidRequest in strict mode."""
        self._own = tuple(names)
        self._record.note(self._own)
        self.of_attempt(())

    def of_attempt(self, notes: Iterable[str]) -> None:
        """Pick the losses from the notes, which the caller counts. Raises InvalidRequest in strict mode."""
        lost = (*self._own, *(note for note in notes if note in shared.REQUEST_LOSSES))
        self._record.losses = tuple(sorted(set(lost)))
        if self.strict and lost:
            raise _refusal(self._record.losses)


def is_strict(caller: Caller) -> bool:
    """Whether the header or the caller's key asks for strict mode. No header turns off the rule of a key."""
    value = caller.headers.get(STRICT, "0")
    if value not in _STRICT_VALUES:
        raise invalid_field(f"must be {' or '.join(_STRICT_VALUES)}, not {quoted(value)}", STRICT)
    return caller.key_strict or _STRICT_VALUES[value]


def _refusal(losses: tuple[str, ...]) -> InvalidRequest:
    reasons = [f"{name}: {_reason(name)}" for name in losses[:MOST_EXPLAINED]]
    if len(losses) > MOST_EXPLAINED:
        reasons.append(f"{len(losses) - MOST_EXPLAINED} more losses follow.")
    return InvalidRequest(
        f"Strict mode forbids dropping parts of the request. {' '.join(reasons)} "
        f"Remove them, or turn off strict mode ({STRICT}, or the key's rule).",
        param=losses[0].partition(".")[2],
    )


def _reason(name: str) -> str:
    return REQUEST_LOSSES.get(name.partition(":")[0], "Gemini has nothing like it.")
