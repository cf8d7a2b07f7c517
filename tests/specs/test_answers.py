"""Every body and every event as the vendors' documents and the official SDKs' types say."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest
from checked_answers import Findings, of_transcripts
from checked_requests import of_demo_models, of_features, of_other_paths
from checked_resources import of_resources
from checked_streams import of_streams
from gunicorn_bridge import gunicorn_bridge

HERE = Path(__file__).parent
DELIBERATE = tomllib.loads((HERE / "deliberate.toml").read_text())["deliberate"]
GAPS = tomllib.loads((HERE / "known_gaps.toml").read_text()).get("gap", [])
LISTED = [line for entry in (*DELIBERATE, *GAPS) for line in entry["found"]]

pytestmark = pytest.mark.timeout(600)  # thousands of answers, on a busy machine


@pytest.fixture(scope="module")
def findings():
    findings = Findings()
    findings.add(of_transcripts())
    findings.add(of_streams())
    with gunicorn_bridge("tests.support.demo_without_pauses:app", BRIDGE_UPSTREAM__ATTEMPTS="1") as running:
        for answers in (of_demo_models, of_features, of_other_paths, of_resources):
            findings.add(answers(running.address))
    return findings


def test_answers_are_as_the_documents_say_except_where_it_is_listed(findings):
    found = findings.causes()
    new = [
        f"{label} ({count} times)\n    {example}"
        for label, (count, example) in found.items()
        if label not in LISTED
    ]
    assert not new, "not as the documents say:\n" + "\n".join(sorted(new))


def test_what_is_listed_still_occurs(findings):
    gone = sorted(set(LISTED) - findings.causes().keys())
    assert not gone, "no longer found; remove from the lists:\n" + "\n".join(gone)


def test_many_answers_were_checked(findings):
    assert findings.checks > 10_000


def test_a_cause_is_listed_once_and_explained():
    assert [line for line, count in Counter(LISTED).items() if count > 1] == []
    assert all(entry["reason"].endswith(".") for entry in DELIBERATE)
    assert all(entry["cause"].endswith(".") and entry["fix"].startswith("bridge/") for entry in GAPS)
