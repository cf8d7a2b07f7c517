"""A client of Open Responses that checks all that it receives against the document's schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson
import requests
from vendor_schemas import UNKNOWN, document

DOCUMENT = document("openresponses")
FINAL = ("response.completed", "response.failed", "response.incomplete")


class Received(NamedTuple):
    body: Any  #: the whole body; of a stream the response in its last event
    events: list[dict[str, Any]]


def broken_rules(component: str, value: Any) -> list[str]:
    """What the document forbids. It allows properties that it does not name; other tests look at those."""
    found = [str(each) for each in DOCUMENT.findings(component, value) if each.rule != UNKNOWN]
    if not found and not DOCUMENT.is_valid(component, value):
        found = [f"{component}: the schema library refuses it"]
    return found


class OpenResponsesClient:
    def __init__(self, address: str, headers: Mapping[str, str]) -> None:
        self._address = address
        self._headers = headers

    def post(self, path: str, body: Any) -> requests.Response:
        return requests.post(f"{self._address}/v1{path}", json=body, headers=self._headers, timeout=60)

    def respond(self, body: Mapping[str, Any], *, stream: bool) -> Received:
        answer = self.post("/responses", {**body, "stream": stream})
        assert answer.status_code == 200, answer.text
        received = self._streamed(answer) if stream else Received(answer.json(), [])
        assert broken_rules("ResponseResource", received.body) == []
        return received

    def compact(self, body: Mapping[str, Any]) -> Any:
        answer = self.post("/responses/compact", body)
        assert answer.status_code == 200, answer.text
        assert broken_rules("CompactResource", answer.json()) == []
        return answer.json()

    def _streamed(self, answer: requests.Response) -> Received:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        events = []
        for block in answer.content.split(b"\n\n"):
            fields = dict(line.split(b": ", 1) for line in block.splitlines() if not line.startswith(b":"))
            if fields:
                event = orjson.loads(fields[b"data"])
                assert fields[b"event"].decode() == event["type"]
                assert broken_rules("StreamEvent", event) == []
                events.append(event)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert events[-1]["type"] in FINAL
        return Received(events[-1]["response"], events)
