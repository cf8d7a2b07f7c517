"""`gemini-bridge context explain`: what the bridge would do with a long conversation."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from bridge.cli.command import FAILED, PROGRAM, Command, Example
from bridge.cli.model_names import misspelt_model
from bridge.cli.request_file import read_body
from bridge.cli.table import format_table
from bridge.settings import load

if TYPE_CHECKING:
    from bridge.exchange.context_explanation import Explanation, StepExplained

HEADER = ("step", "state", "changes", "before", "after", "first changed turn")


def _arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    explaining = actions.add_parser(
        "explain",
        help="show what each context step would do with a client's request; nothing is sent",
    )
    explaining.add_argument("file", help="a file with the JSON body of a request")
    explaining.add_argument("--protocol", help="the protocol of the request; default: found by its fields")
    explaining.add_argument("--model", help="the model instead of the one that the request names")
    explaining.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: argparse.Namespace) -> int:
    from bridge.errors import BridgeError  # slow to import, with what it needs
    from bridge.exchange.context_explanation import explain

    settings, body = load(), read_body(arguments.file)
    if arguments.model and (hint := misspelt_model(arguments.model)):
        print(f"Note: {hint}", file=sys.stderr)
    try:
        explanation = explain(body, arguments.protocol, arguments.model, settings)
    except BridgeError as error:
        print(f"{PROGRAM}: {error.message}", file=sys.stderr)
        return FAILED
    if arguments.json:
        print(json.dumps(_as_json(explanation), indent=2))
    else:
        print("\n".join(_shown(explanation)))
    return FAILED if explanation.error else 0


CONTEXT = Command(
    _run,
    "explain how a long conversation would be shortened",
    _arguments,
    (
        Example("context explain request.json", "what each step would do with this request"),
        Example("context explain request.json --model gemini-3.6-flash", "the same with another model"),
    ),
)


def _shown(explanation: Explanation) -> list[str]:
    rows = [HEADER, *map(_cells, explanation.steps)]
    return [*format_table(_facts(explanation)), "", *format_table(rows, right_from=2), "", _end(explanation)]


def _facts(explanation: Explanation) -> list[tuple[str, str]]:
    window = explanation.window
    size = "unknown; name it in config/models.toml" if window is None else f"{window.limit:,} tokens"
    facts = [
        ("protocol", explanation.protocol),
        ("model", explanation.model),
        ("window", size),
        ("turns", str(explanation.turns)),
        ("tokens", f"{explanation.tokens:,} (estimated)"),
    ]
    if explanation.compress != "all":
        facts.append(("compress", f"{explanation.compress!r}; shown as if it were 'all'"))
    return facts


def _cells(step: StepExplained) -> tuple[str, ...]:
    changes = str(step.changes) if step.changes else ""
    return step.name, step.state, changes, f"{step.before:,}", f"{step.after:,}", str(step.first or "")


def _end(explanation: Explanation) -> str:
    if explanation.error:
        return f"The request would fail: {explanation.error}"
    return f"About {explanation.steps[-1].after:,} tokens would be sent."


def _as_json(explanation: Explanation) -> dict[str, Any]:
    window = explanation.window
    return {
        "protocol": explanation.protocol,
        "model": explanation.model,
        "window": None if window is None else window.limit,
        "grid": None if window is None else window.grid,
        "compress": explanation.compress,
        "turns": explanation.turns,
        "tokens": explanation.tokens,
        "steps": [step._asdict() for step in explanation.steps],
        "error": explanation.error or None,
    }
