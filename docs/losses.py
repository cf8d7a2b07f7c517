"""Writes docs/losses.md, the list of what the bridge drops: `make diagrams`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from bridge.gemini import losses as shared
from bridge.protocols import PROTOCOLS

PAGE = Path(__file__).parent / "losses.md"

HEAD = """# What the bridge drops

Written by `make diagrams` from the tables in the code. A field that a vendor documents is carried to Gemini,
refused with status 400, or dropped. Each dropped field has a name:

* The response header `x-bridge-losses` names what was dropped from the request, in alphabetical order with
  commas between them. If they are longer than 1024 characters, it ends with `+` and the number of the rest.
* The log line counts the names under `notes`, and so does the metric `gemini_bridge_notes_total`.
* The request header `x-bridge-strict: 1`, or a key with `--strict yes`, turns each loss of a request into
  status 400. The error names the losses, and the request is not sent to Gemini.

A response to `store: true` that could not be stored, because the state database is away, has the name
`answer_not_stored` in the same header. It is no loss of the request: strict mode does not refuse the request.

Some names end with the client's own text after a colon: `responses.tool:file_search`. What an answer of
Gemini loses is only counted, because the head of a stream is sent before the loss is known.
"""


def page() -> str:
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    yield from _section("Requests of all protocols", shared.REQUEST_LOSSES)
    for protocol in PROTOCOLS:
        yield from _section(f"Requests: `{protocol.name}`", protocol.request_losses)
    for protocol in PROTOCOLS:
        yield from _section(f"Answers: `{protocol.name}`", protocol.answer_losses)


def _section(title: str, losses: Mapping[str, str]) -> Iterator[str]:
    if losses:
        yield f"## {title}\n\n| name | why |\n|---|---|"
        yield from (f"| `{name}` | {losses[name]} |" for name in sorted(losses))
        yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
