"""Every name of a loss is declared with a sentence, and the list in the documents has all of them."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import orjson
import pytest
from conversations import CONVERSATIONS
from gunicorn_bridge import ROOT
from request_fields import PROBES, Outcome, fields_of
from transcripts import NAMES, VARIANTS, chunks_of

from bridge.exchange.losses import REQUEST_LOSSES
from bridge.gemini import losses as shared
from bridge.protocols import PROTOCOLS
from bridge.web.routes import validated

PAGE = ROOT / "docs" / "losses.md"
ANSWER_LOSSES = {name for protocol in PROTOCOLS for name in protocol.answer_losses}
#: A name that the code writes: a protocol's prefix, and a name that is not an event or an object of a vendor.
WRITTEN = re.compile(r"(?:messages|responses|interactions)\.[a-z_]+:?|chat\.(?!completion)[a-z_]+")

pytestmark = pytest.mark.timeout(600)  # thousands of requests, on a busy machine


def of_requests() -> set[str]:
    """The losses of all recorded requests, and of the harness that tries every documented field."""
    found = {
        loss
        for protocol in PROTOCOLS
        for path in sorted((ROOT / "tests" / "requests" / protocol.name / "valid").glob("*.json"))
        if path.suffixes == [".json"]
        for loss in protocol.to_gemini(
            validated(protocol.schema, orjson.loads(path.read_bytes())),
            CONVERSATIONS[protocol.name].callers[""],
        ).losses
    }
    details = [field.detail for name in PROBES for field in fields_of(name) if field.outcome is Outcome.LOST]
    return found | {loss for detail in details for loss in detail.split(", ")}


def of_answers() -> set[str]:
    """The losses of all recorded answers."""
    found: set[str] = set()
    for told in VARIANTS:
        for name in NAMES:
            run = told.run()
            run.whole(chunks_of(name))
            found.update(run.machine.losses)
    return found


def test_every_loss_of_a_request_is_declared():
    assert {loss.partition(":")[0] for loss in of_requests()} - set(REQUEST_LOSSES) == set()


def test_every_loss_of_an_answer_is_declared():
    assert of_answers() - ANSWER_LOSSES == set()


def written_names(folder: Path) -> set[str]:
    """All texts in the code of a folder that look like the name of a loss, without its tables."""
    return {
        node.value.removesuffix(":")
        for path in folder.rglob("*.py")
        if path.name != "losses.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and WRITTEN.fullmatch(node.value)
    }


def test_every_name_in_the_code_is_declared():
    assert written_names(ROOT / "bridge" / "protocols") - set(REQUEST_LOSSES) - ANSWER_LOSSES == set()


def is_mentioned(name: str, text: str) -> bool:
    """Whether the code has the name, or the constant that holds it."""
    constants = [constant for constant, value in vars(shared).items() if value == name]
    return any(each in text for each in (f'"{name}', *constants))


def test_every_declared_name_can_occur():
    """Names that nothing in the code writes any more are removed from the tables."""
    seen = of_answers() | {each.partition(":")[0] for each in of_requests()}
    texts = [path.read_text() for path in (ROOT / "bridge").rglob("*.py") if path.name != "losses.py"]
    unseen = (set(REQUEST_LOSSES) | ANSWER_LOSSES) - seen
    assert {name for name in unseen if not any(is_mentioned(name, text) for text in texts)} == set()


@pytest.mark.parametrize("losses", [REQUEST_LOSSES, *(each.answer_losses for each in PROTOCOLS)])
def test_each_loss_has_one_plain_sentence(losses):
    for name, sentence in losses.items():
        assert re.fullmatch(r"[a-z]+\.[a-z_]+", name)
        assert re.fullmatch(r"[A-Z][^\n]{10,120}\.", sentence)


def test_the_page_has_all_of_them():
    spec = importlib.util.spec_from_file_location("losses_page", PAGE.with_suffix(".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.page() == PAGE.read_text(), "run: make diagrams"
    for name in (*REQUEST_LOSSES, *ANSWER_LOSSES):
        assert f"| `{name}` |" in PAGE.read_text()
