"""The command `gemini-bridge usage`: tables, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest
from gunicorn_bridge import ROOT, clean_environment

from bridge.cli import main
from bridge.cli import usage as usage_command
from bridge.state.sqlite.usage_store import SqliteUsageStore
from bridge.state.usage_store import MOST_REFUSALS, Refusal, UsageRow

NOW = datetime.now(UTC).replace(hour=12)
TODAY = NOW.date()


class Noon(datetime):
    """A fixed time, as midnight may pass while the tests run."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return NOW


def row(days_ago: int = 0, **different) -> UsageRow:
    at = (NOW - timedelta(days=days_ago)).timestamp()
    usual = UsageRow(
        *(at, "alice", "openai_chat", "codex", "gpt-5", "gemini-3.1-pro-preview"),
        *(1_500_000, 500_000, 20, 5, 1.25, 1.5, 0.2, "completed", "", 200, ""),
    )
    return usual._replace(**different)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteUsageStore:
    for name in ("BRIDGE_CONFIG_DIR", "DEBUG", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BRIDGE_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(usage_command, "datetime", Noon)
    return SqliteUsageStore(tmp_path / "accounts.sqlite3", days=400, request_days=31, megabytes=16)


@pytest.fixture
def usage(capsys: pytest.CaptureFixture[str]):
    def run(*arguments: str) -> str:
        assert main(["usage", *arguments]) == 0
        return capsys.readouterr().out

    return run


def test_without_requests_the_report_says_so(store, usage, tmp_path) -> None:
    assert (
        usage()
        == f"No usage is recorded yet: no request was sent to a model ({tmp_path}/accounts.sqlite3).\n"
    )
    assert json.loads(usage("--json"))["rows"] == []
    assert usage("--csv").count("\n") == 1


def test_a_table_has_a_line_for_each_day_and_a_total(store, usage) -> None:
    store.write([row(1), row(0), row(0, outcome="failed", error="overloaded", cached=0, cost=0.0), row(45)])
    lines = usage().splitlines()
    assert lines[0] == f"{TODAY - timedelta(days=29)} to {TODAY} (UTC), cost in USD"
    assert [line.split() for line in lines[2:]] == [
        ["DAY", "REQUESTS", "FAILED", "INPUT", "CACHED", "OUTPUT", "REASONING", "CACHED", "%", "COST"],
        [str(TODAY - timedelta(days=1)), "1", "0", "1,500,000", "500,000", "20", "5", "25%", "1.2500"],
        [str(TODAY), "2", "1", "3,000,000", "500,000", "40", "10", "14%", "1.2500"],
        ["TOTAL", "3", "1", "4,500,000", "1,000,000", "60", "15", "18%", "2.5000"],
    ]
    assert len({len(line) for line in lines[2:]}) == 1, "numbers stand at the right"


@pytest.mark.parametrize(
    ("arguments", "requests"),
    [
        ((), 3),
        (("--since", "1d"), 1),
        (("--since", "2d"), 2),
        (("--since", "60d"), 4),
        (("--since", str(TODAY - timedelta(days=45))), 4),
        (("--since", "60d", "--until", str(TODAY - timedelta(days=10))), 2),
        (("--since", "60d", "--until", "2d"), 3),
        (("--key", "bob"), 1),
        (("--key", "nobody"), 0),
    ],
)
def test_days_and_key_can_be_picked(store, usage, arguments, requests) -> None:
    store.write([row(0), row(1, key="bob"), row(20), row(45)])
    assert json.loads(usage("--json", *arguments))["total"]["requests"] == requests


def test_several_groupings_at_once(store, usage) -> None:
    store.write([row(), row(key="bob", client="claude-cli", cost=2.0), row(key="bob", client="", cost=9.0)])
    lines = usage("--by", "key,client").splitlines()
    assert [line.split()[:3] for line in lines[2:]] == [
        ["KEY", "CLIENT", "REQUESTS"],
        ["bob", "(none)", "1"],
        ["bob", "claude-cli", "1"],
        ["alice", "codex", "1"],
        ["TOTAL", "3", "0"],
    ]


def test_json_holds_names_sums_and_total(store, usage) -> None:
    store.write([row(), row(model="unheard-of", cost=None, outcome="client_left")])
    told = json.loads(usage("--json", "--by", "model,protocol"))
    assert (told["currency"], told["until"]) == ("USD", str(TODAY))
    assert told["rows"][1] == {
        "model": "unheard-of",
        "protocol": "openai_chat",
        "requests": 1,
        "failed": 0,
        "client_left": 1,
        "unpriced": 1,
        "input": 1_500_000,
        "cached": 500_000,
        "output": 20,
        "reasoning": 5,
        "cost": 0.0,
        "from_cache": 0,
        "saved": 0.0,
        "cached_share": 0.25,
    }
    assert told["total"]["requests"] == 2


def test_json_has_the_share_of_cached_tokens(store, usage) -> None:
    store.write([row(key="a"), row(key="b", input=0, cached=0), row(key="c", input=2, cached=1)])
    told = json.loads(usage("--json", "--by", "key"))
    assert {each["key"]: each["cached_share"] for each in told["rows"]} == {"a": 0.25, "b": None, "c": 0.3333}
    assert told["total"]["cached_share"] == 0.25
    rows = list(csv.DictReader(io.StringIO(usage("--csv", "--by", "key"))))
    assert {each["key"]: each["cached_share"] for each in rows} == {"a": "0.25", "b": "", "c": "0.3333"}


def test_requests_can_be_grouped_by_service_tier(store, usage) -> None:
    store.write([row(tier="flex", cost=3.0), row(tier="flex"), row(tier="standard"), row(cost=0.5)])
    told = json.loads(usage("--json", "--by", "tier"))
    assert [(each["tier"], each["requests"]) for each in told["rows"]] == [
        ("flex", 2),
        ("standard", 1),
        ("", 1),
    ]


def test_csv_is_safe_to_open_and_adds_up(store, usage) -> None:
    store.write([row(client_model='=cmd|"/c calc"'), row(client_model="@x"), row(client_model='a,"b"')])
    rows = list(csv.DictReader(io.StringIO(usage("--csv", "--by", "client-model"))))
    assert {each["client-model"] for each in rows} == {'\'=cmd|"/c calc"', "'@x", 'a,"b"'}
    assert sum(int(each["input"]) for each in rows) == 4_500_000


def test_models_without_a_price_are_named(store, usage) -> None:
    store.write([row(), row(model="unheard-of", cost=None), row(model="unheard-of", cost=None)])
    remark = "Requests without a cost, since their models have no price in prices.toml: 2 (unheard-of)"
    assert usage().splitlines()[-1] == remark


def test_answers_of_the_request_cache_are_reported_with_what_they_saved(store, usage) -> None:
    store.write([row(), row(cost=0.0, from_cache=1, saved=1.5), row(cost=0.0, from_cache=1, saved=0.25)])
    assert usage().splitlines()[-1] == "Answers of the request cache: 2, which saved 1.7500 USD."
    told = json.loads(usage("--json"))
    assert (told["total"]["from_cache"], told["total"]["saved"]) == (2, 1.75)


def test_a_period_beyond_the_stored_data_is_reported(store, usage) -> None:
    store.write([row()])
    assert "Single requests are kept for 31 days" in usage("--by", "client", "--since", "60d")
    assert "Single requests" not in usage("--by", "model", "--since", "60d")
    assert "Single requests" not in usage("--by", "client")


def test_client_chosen_names_cannot_send_terminal_escapes(store, usage) -> None:
    store.write([row(client_model="\x1b]0;owned\x07" + "x" * 100)])
    shown = usage("--by", "client-model")
    assert "\x1b" not in shown
    assert "?]0;owned?xxx" in shown


PAGES = (ROOT / "README.md", ROOT / "docs" / "OBSERVABILITY.md")
COMMANDS = [
    line
    for page in PAGES
    for line in re.findall(r"^\S*gemini-bridge (usage.*)$", page.read_text(), re.MULTILINE)
]


@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_in_the_documents_run(store, usage, line) -> None:
    store.write([row()])
    assert usage(*shlex.split(line, comments=True)[1:])
    assert len(COMMANDS) >= 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--by", "colour"),
            "'colour' is unknown; known names: day, key, model, protocol, client, client-model, error",
        ),
        (("--since", "yesterday"), "neither a number of days such as 7d nor a day such as 2026-11-01"),
        (("--since", "2026-13-01"), "neither a number of days"),
        (("--since", "99999999d"), "neither a number of days"),
        (("--json", "--csv"), "not allowed with argument"),
    ],
)
def test_wrong_arguments_are_explained(store, capsys, arguments, message) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["usage", *arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_an_unreadable_usage_file_is_an_error_with_a_remedy(store, capsys, tmp_path) -> None:
    (tmp_path / "accounts.sqlite3").write_bytes(b"no database at all, but long enough to look at" * 50)
    assert main(["usage"]) == 1
    told = capsys.readouterr().err
    assert "accounts.sqlite3 cannot be used: file is not a database" in told
    assert "Run this as the user that the service runs as" in told


def test_usage_is_read_while_workers_write(store, usage, tmp_path) -> None:
    store.write([row()])
    writer = sqlite3.connect(tmp_path / "accounts.sqlite3")
    writer.execute("BEGIN EXCLUSIVE")
    assert json.loads(usage("--json"))["total"]["requests"] == 1
    writer.close()


def test_a_closed_pipe_ends_the_command_quietly(store, tmp_path) -> None:
    store.write([row(key=f"key-{number}") for number in range(5000)])
    code = "import sys; from bridge.cli import main; sys.exit(main(['usage', '--by', 'key']))"
    ran = subprocess.run(
        f'{sys.executable} -c "{code}" | head -1',
        shell=True,
        cwd=ROOT,
        env=clean_environment() | {"BRIDGE_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.stderr == ""
    assert "cost in USD" in ran.stdout


def refusal(**different) -> Refusal:
    return Refusal(TODAY.isoformat(), "alice", "openai_chat", "key.models", "gpt-5")._replace(**different)


def test_refused_requests_are_listed_with_their_reason(store: SqliteUsageStore, usage) -> None:
    store.count_refusals({refusal(): 5, refusal(key="", rule="key_missing", model=""): 2})
    store.count_refusals({refusal(): 1})
    lines = [line.split() for line in usage().splitlines()]
    assert ["alice", "key.models", "gpt-5", "6"] in lines
    assert ["(none)", "key_missing", "(none)", "2"] in lines
    assert "key_missing" not in usage("--key", "alice")
    assert json.loads(usage("--json"))["refused"][0] == {
        "key": "alice",
        "rule": "key.models",
        "model": "gpt-5",
        "requests": 6,
    }


def test_invented_client_names_do_not_fill_the_table(store: SqliteUsageStore, usage) -> None:
    for start in range(0, 3 * MOST_REFUSALS, MOST_REFUSALS):
        store.count_refusals({refusal(model=f"m{n}"): 1 for n in range(start, start + MOST_REFUSALS)})
    refused = json.loads(usage("--json"))["refused"]
    assert len(refused) == MOST_REFUSALS + 1
    assert refused[0] == {"key": "alice", "rule": "key.models", "model": "", "requests": 2 * MOST_REFUSALS}
    assert "and 981 more rows" in usage()
