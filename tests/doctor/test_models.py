"""The doctor's check of models: available, missing, retired, about to retire."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from experiment_rows import A_MODEL, HALVES, settings_folder
from google_models import ALIVE, google_reply, listed
from scripted_gemini import ScriptedGemini

from bridge.doctor.finding import Installation, Level
from bridge.doctor.models import check_lifecycle, check_models
from bridge.exchange.model_directory import GONE, fact_name
from bridge.settings import load
from bridge.state.stores import open_stores
from bridge.state.usage_store import UsageRow


@pytest.fixture
def google() -> Iterator[ScriptedGemini]:
    scripted = ScriptedGemini()
    scripted.will_answer(google_reply)
    scripted.will_list(listed(*ALIVE))
    yield scripted
    scripted.close()


def asking(google: ScriptedGemini, **more: str) -> dict[str, str]:
    return {"GEMINI_API_KEY": "some-key-of-google", "GOOGLE_GEMINI_BASE_URL": google.address, **more}


def test_the_delivered_models_exist_upstream(installation, google: ScriptedGemini) -> None:
    found = check_models(installation(**asking(google)))
    assert found.level is Level.GREEN
    assert "gemini-pro-latest" in found.says


def test_a_model_that_is_served_but_not_listed_exists(installation, google: ScriptedGemini) -> None:
    google.will_list(listed("gemini-3.8-flash"))
    assert check_models(installation(**asking(google))).level is Level.GREEN


def test_an_unknown_model_is_red(installation, google: ScriptedGemini) -> None:
    found = check_models(installation(**asking(google, DEFAULT_MODEL="gemini-9, gemini-8, gemini-3.8-flash")))
    assert found.level is Level.RED
    assert found.says.endswith(": gemini-9 (gemini-3.8-flash is used instead)")
    assert "gemini-3.1-pro-preview" in found.remedy
    found = check_models(installation(**asking(google, DEFAULT_MODEL="gemini-9")))
    assert found.says.endswith(": gemini-9")


def test_a_listed_model_that_a_request_found_missing_is_red(
    installation, google: ScriptedGemini, tmp_path: Path
) -> None:
    made = installation(**asking(google))
    facts = open_stores(made.settings).learnt_facts
    assert facts.learn(fact_name(GONE, google.address, "gemini-pro-latest"))
    found = check_models(made)
    assert found.level is Level.RED
    assert found.says.endswith(": gemini-pro-latest (gemini-3.1-pro-preview is used instead)")


@pytest.mark.parametrize("place", ["arm", "shadow"])
def test_the_models_of_experiments_are_checked_too(
    google: ScriptedGemini, tmp_path: Path, place: str
) -> None:
    unknown = {"arm": "gemini-3.8-flash", "shadow": "gemini-3.8-flash", place: "gemini-9"}
    rows = (
        f'{HALVES.replace(A_MODEL, unknown["arm"])}\n[[experiment.shadow]]\nname = "s"\n'
        f'model = "{unknown["shadow"]}"\ncost_per_day = 1\n'
    )
    config = settings_folder(tmp_path, rows)
    prices = config / "prices.toml"
    prices.write_text(prices.read_text() + '[[price]]\nmatch = ["gemini-9"]\ninput = 1\noutput = 1\n')
    given = asking(google, BRIDGE_STATE_DIR=str(tmp_path / "state"))
    found = check_models(Installation(load(config, given)))
    assert found.level is Level.RED
    assert found.says == (
        "models.toml or experiments.toml names models that the upstream does not have: gemini-9"
    )


def test_models_that_retire_soon_are_listed(installation, monkeypatch: pytest.MonkeyPatch) -> None:
    found = check_lifecycle(installation())
    assert found.level is Level.GREEN
    expected = "gemini-3.1-flash-lite will be retired on 2027-05-07; replacement: gemini-3.5-flash-lite"
    assert expected in found.says
    monkeypatch.setattr("bridge.doctor.models.today", lambda: date(2027, 5, 1))
    found = check_lifecycle(installation())
    assert found.level is Level.YELLOW
    assert "will be retired on 2027-05-07" in found.says
    monkeypatch.setattr("bridge.doctor.models.today", lambda: date(2027, 5, 7))
    assert check_lifecycle(installation()).says == "no retirement is announced"


def test_a_retired_model_in_the_settings_is_reported(installation) -> None:
    found = check_lifecycle(installation(DEFAULT_MODEL="gemini-2.5-flash"))
    assert found.level is Level.YELLOW
    assert "gemini-2.5-flash is in use but was retired on 2026-10-16" in found.says
    assert "replacement: gemini-3.8-flash, gemini-flash-latest" in found.says


def test_a_retired_model_that_clients_request_is_reported(installation) -> None:
    made = installation()
    store = open_stores(made.settings).usage
    asked = dict.fromkeys(UsageRow._fields, 0) | {
        "at": time.time(),
        "key": "",
        "protocol": "openai_chat",
        "client": "codex",
        "client_model": "gemini-2.5-pro",
        "model": "gemini-3.1-pro-preview",
        "outcome": "completed",
        "error": "",
    }
    store.write([UsageRow(**asked)])
    found = check_lifecycle(made)
    assert found.level is Level.YELLOW
    assert "gemini-2.5-pro is in use but was retired on 2026-10-16" in found.says
