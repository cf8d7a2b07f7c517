"""The report of an experiment from rows that were written, beside values computed by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from command_line import attempt, command
from experiment_rows import HALVES, settings_folder
from usage_rows import row

from bridge.state.usage_store import UsageRow
from tests.state.conftest import Backend

TODAY = datetime.now(UTC).date()
NOW = datetime.now(UTC).timestamp()
COUNT = 40
SHADOW = '[[experiment.shadow]]\nname = "s"\nmodel = "gemini-3.8-flash"\ncost_per_day = 5\n'


def conversation(arm: str, number: int, costs: tuple[float, ...], **different: Any) -> list[UsageRow]:
    """Requests of a conversation; the first one is streamed."""
    common = {"experiment": "halves", "arm": arm, "conversation": f"{arm}{number}", **different}
    return [row(NOW, cost=cost, streamed=int(place == 0), **common) for place, cost in enumerate(costs)]


def with_seconds(rows: list[UsageRow], *seconds: float) -> list[UsageRow]:
    return [each._replace(seconds=value) for each, value in zip(rows, seconds, strict=True)]


@pytest.fixture
def settings(backend: Backend, tmp_path: Path) -> dict[str, str]:
    """Forty conversations of two requests in each arm.

    Cost of a conversation: 0.20 and 0.30 in turn, against 0.10 and 0.14. Four of forty fail, against eight.
    Requests take 2 s and 4 s, against 1 s and 3 s; first token after 0.5 s, against 0.4 s.
    Of the prompts a quarter is cached, against a half.
    """
    rows: list[UsageRow] = []
    for number in range(COUNT):
        odd = number % 2
        failed = {"outcome": "failed"} if number < 4 else {}
        made = conversation("a", number, (0.1, 0.1 + odd / 10), input=75, cached=25, first_byte=0.5, **failed)
        rows += with_seconds(made, 2.0, 4.0)
        failed = {"outcome": "failed"} if number < 8 else {}
        made = conversation(
            "b", number, (0.05, 0.05 + odd / 25), input=50, cached=50, first_byte=0.4, **failed
        )
        rows += with_seconds(made, 1.0, 3.0)
    rows += conversation("a", 100, (9.0,), assignment="ineligible")
    rows += conversation("b", 101, (9.0,), assignment="chosen")
    rows += conversation("s", 102, (0.02,), assignment="shadow", key="shadow:halves:s")
    rows += [row(NOW)]
    backend.usage().write(rows)
    found = {"BRIDGE_CONFIG_DIR": str(settings_folder(tmp_path, HALVES + SHADOW))}
    if backend.name == "sqlite":
        return {**found, "BRIDGE_STATE_DIR": str(backend.folder)}
    return {**found, "BRIDGE_STATE_DIR": str(tmp_path / "state"), "BRIDGE_STATE_URL": backend.url}


def about(number: float) -> Any:
    return pytest.approx(number, abs=1e-4)


def test_the_report_equals_what_was_computed_by_hand(settings: dict[str, str]) -> None:
    report = json.loads(command("experiment", "report", "halves", "--json", **settings))
    control, arm = report["arms"]
    assert (control["units"], control["requests"], arm["units"], arm["requests"]) == (40, 80, 40, 80)
    assert report["left_out"] == {"ineligible": 1, "chosen": 1}
    assert (report["split_probability"], report["split_suspicious"]) == (1.0, False)
    # Residuals of 0.05 and of 0.02: errors sqrt(40/39 × 40 × 0.05²) / 40 = 0.0080064, and 0.0032026.
    assert control["metrics"]["cost"] == {"value": about(0.25), "interval": [about(0.23431), about(0.26569)]}
    assert arm["metrics"]["cost"] == {
        "value": about(0.12),
        "interval": [about(0.11372), about(0.12628)],
        "difference": about(-0.13),
        "difference_interval": [about(-0.14690), about(-0.11310)],  # 0.13 ± 1.96 × 0.0086231
        "verdict": "better",
        "more_units": None,
    }
    # Wilson: 4 of 40 is 0.0396 to 0.2305, 8 of 40 is 0.1050 to 0.3476.
    # Newcombe: 0.1 - hypot(0.0950, 0.1305), 0.1 + hypot(0.1476, 0.0604).
    assert arm["metrics"]["errors"] == {
        "value": about(0.2),
        "interval": [about(0.1050), about(0.3476)],
        "difference": about(0.1),
        "difference_interval": [about(-0.0614), about(0.2594)],
        "verdict": "not known yet",
        "more_units": 350,  # 80 × (2.8016 × 0.08185 / 0.1)² = 421, of which 80 are there
    }
    metrics = {name: each["value"] for name, each in arm["metrics"].items()}
    assert metrics["total p50"] == 1.0
    assert metrics["total p95"] == 3.0
    assert metrics["first token p50"] == metrics["first token p95"] == 0.4
    assert (metrics["cached share"], metrics["malformed calls"]) == (0.5, 0.0)
    assert arm["metrics"]["cached share"]["difference"] == 0.25
    assert arm["metrics"]["cached share"]["verdict"] == "better"
    (shadow,) = report["shadows"]
    assert (shadow["name"], shadow["requests"], shadow["metrics"]["cost"]["value"]) == ("s", 1, 0.02)


def test_the_report_as_text(settings: dict[str, str]) -> None:
    text = command("experiment", "report", "halves", **settings)
    assert text.startswith("halves: sonnet, claude-sonnet-*, by conversation; ")
    arms, _, shadow = text.partition("s (shadow)")
    lines = {line.partition("  ")[0]: line.split() for line in arms.splitlines()}
    assert lines["conversations"] == ["conversations", "40", "40"]
    assert " ".join(lines["cost per conversation"]) == (
        "cost per conversation 0.2500 0.1200 -0.1300 -0.1469 to -0.1131 better"
    )
    assert " ".join(lines["errors"]).endswith("not known yet, needs about 350 more conversations")
    assert "cost per request" in shadow
    assert "Left out: 1 chosen, 1 ineligible (conversations)." in text
    assert "WARNING" not in text


def test_days_without_a_request_and_unknown_names(settings: dict[str, str]) -> None:
    told = command("experiment", "report", "halves", "--until", "2026-01-01", **settings)
    assert "No request of this experiment is recorded yet." in told
    wrong = attempt("experiment", "report", "halve", **settings)
    assert wrong.returncode == 2
    assert "no experiment is named 'halve'; did you mean halves?" in wrong.stderr


def test_a_biased_feed_is_shown(backend: Backend, settings: dict[str, str]) -> None:
    """40 to 140 conversations: chi-square 55.6, p = 9e-14."""
    backend.usage().write(
        [each for number in range(200, 300) for each in conversation("b", number, (0.1,), first_byte=0.4)]
    )
    text = command("experiment", "report", "halves", **settings)
    assert "WARNING: the conversations are not split as the weights say: 40 to 140, weights 50 to 50" in text
    assert "(p = 9e-14)" in text
