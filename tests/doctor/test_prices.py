"""The doctor's check of models without a price, in the tables and in the usage."""

from __future__ import annotations

import json
import time
from datetime import date
from pathlib import Path

import pytest
from usage_rows import row

from bridge.cli import main
from bridge.doctor import prices as price_check
from bridge.doctor.finding import Level
from bridge.doctor.prices import check_prices
from bridge.state.sqlite.usage_store import SqliteUsageStore

DAY = 86_400
KEY = {"GEMINI_API_KEY": "AIzaCanary0000000000000000000000000key"}


def write(folder: Path, model: str, days_ago: float = 0, cost: float | None = None) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    store = SqliteUsageStore(folder / "accounts.sqlite3", days=400, request_days=31, megabytes=16)
    at = time.time() - days_ago * DAY
    store.write([row(at, key="", model=model, cost=cost)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_delivered_prices_are_green_and_the_next_change_is_named(installation, monkeypatch) -> None:
    monkeypatch.setattr(price_check, "today", lambda: date(2026, 11, 18))
    found = check_prices(installation(**KEY))
    assert found.level is Level.GREEN
    assert found.says.endswith("; the price of gemini-4-argon* changes on 2026-12-01")
    monkeypatch.setattr(price_check, "today", lambda: date(2099, 1, 1))
    assert check_prices(installation(**KEY)).says == "every configured or used model has a price"


def test_an_unpriced_model_in_the_tables_is_yellow(installation) -> None:
    found = check_prices(installation(**KEY, DEFAULT_MODEL="gemini-unheard-of"))
    assert found.level is Level.YELLOW
    assert found.says.startswith("no price for gemini-unheard-of: their cost is not counted")
    assert "rejected if a cost limit applies" in found.says
    assert "prices.toml" in found.remedy


def test_with_a_cost_limit_an_unpriced_model_is_red_unless_allowed(installation) -> None:
    named = {**KEY, "DEFAULT_MODEL": "gemini-unheard-of", "BRIDGE_LIMITS__COST_PER_DAY": "5"}
    assert check_prices(installation(**named)).level is Level.RED
    found = check_prices(installation(**named, BRIDGE_LIMITS__UNPRICED="allow"))
    assert found.level is Level.YELLOW
    assert "requests to them pass every cost limit" in found.says


def test_an_unpriced_model_used_this_week_is_yellow(installation, folder: Path) -> None:
    write(folder, "gemini-lately", 5.5)
    write(folder, "gemini-long-ago", 9)
    write(folder, "gemini-since-priced", 1, cost=0.5)
    write(folder, "gemini-3.8-flash", 1)  # it had no price at that time, and has one now
    write(folder, "bell\a", 0)
    found = check_prices(installation(**KEY))
    assert found.level is Level.YELLOW
    assert "gemini-lately" in found.says
    assert "bell?" in found.says
    assert not any(name in found.says for name in ("long-ago", "since-priced", "3.8-flash"))


def test_the_offline_model_needs_no_price(installation, folder: Path) -> None:
    write(folder, "gemini-lately")
    assert check_prices(installation()).level is Level.GREEN


def test_unreadable_usage_is_left_to_another_check(installation, folder: Path) -> None:
    folder.mkdir()
    (folder / "accounts.sqlite3").write_bytes(b"no database" * 100)
    assert check_prices(installation(**KEY)).level is Level.GREEN


def test_the_doctor_command_prints_a_line_about_prices(monkeypatch, folder: Path, capsys) -> None:
    monkeypatch.setenv("BRIDGE_STATE_DIR", str(folder))
    monkeypatch.setenv("BRIDGE_UPSTREAM__TRANSPORT", "demo")
    main(["doctor", "--json"])
    rows = {row["check"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["prices"]["level"] == "green"
