"""The command `gemini-bridge key`."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from client_keys import KEYS_FILE, ClientKeys
from gunicorn_bridge import ROOT

from bridge.access.key_format import digest, well_formed
from bridge.cli import main
from bridge.cli.key_values import OPTIONS
from bridge.settings.limits import Limits
from bridge.state.key_store import Rules


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in list(os.environ):
        if name.startswith("BRIDGE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("BRIDGE_STATE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def store(state: Path) -> ClientKeys:
    return ClientKeys(state)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Return the exit code, the standard output and the standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main(["key", *arguments])
        except SystemExit as ended:
            code = int(str(ended.code))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_a_new_key_is_the_only_line_on_stdout(run, store: ClientKeys) -> None:
    code, printed, explained = run("add", "alice")
    secret = printed.removesuffix("\n")
    assert code == 0
    assert well_formed(secret)
    assert digest(secret) in store.secrets_by_digest()
    assert secret not in explained
    assert "shown only once" in explained
    assert "the first" in explained
    assert "the first" not in run("add", "bob")[2]


def test_every_option_becomes_a_rule(run, store: ClientKeys) -> None:
    options = {
        "--owner": "Alice, R&D",
        "--models": "gemini-*flash*, gpt-5,",
        "--expires": "2099-01-31",
        "--from": "10.0.0.0/8,fd00::1",
        "--rpm": "10",
        "--tpm": "20",
        "--tokens-per-day": "1_000_000",
        "--cost-per-day": "2.5",
        "--streams": "4",
        "--dialect": "openai",
        "--strict": "yes",
    }
    assert run("add", "alice", *(word for pair in options.items() for word in pair))[0] == 0
    end_of_day = datetime(2099, 2, 1, tzinfo=UTC).timestamp()
    ranges, models = ("10.0.0.0/8", "fd00::1"), ("gemini-*flash*", "gpt-5")
    (key,) = store.all()
    limits = Limits(10, 20, 1_000_000, 2.5, 4)
    assert key.rules == Rules("Alice, R&D", models, ranges, end_of_day, limits, "openai", strict=True)


@pytest.mark.parametrize(("text", "days"), [("90d", 90), ("2w", 14), ("36h", 1.5), ("30m", 1 / 48)])
def test_a_key_can_expire_after_a_duration(run, store: ClientKeys, text: str, days: float) -> None:
    run("add", "alice", "--expires", text)
    assert store.all()[0].rules.expires == pytest.approx(time.time() + days * 86400, abs=30)


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--rpm", "-1", "a whole number from 0"),
        ("--rpm", "1.5", "a whole number from 0"),
        ("--rpm", "many", "a whole number from 0"),
        ("--rpm", "9" * 30, "a whole number from 0"),
        ("--dialect", "klingon", "auto, bridge, openai or codex"),
        ("--dialect", "", "auto, bridge, openai or codex"),
        ("--strict", "maybe", "must be yes or no"),
        ("--strict", "", "must be yes or no"),
        ("--cost-per-day", "nan", "a number from 0"),
        ("--cost-per-day", "inf", "a number from 0"),
        ("--cost-per-day", "", "a number from 0"),
        ("--expires", "2020-01-01", "must be in the future"),
        ("--expires", "0", "must be in the future"),
        ("--expires", "2027-13-01", "such as 2027-01-31"),
        ("--expires", "9999-12-31", "such as 2027-01-31"),
        ("--expires", "soon", "such as 90d, or never"),
        ("--expires", "999999w", "such as 90d, or never"),
        ("--from", "10.0.0.0/33", "an address such as"),
        ("--from", "localhost", "an address such as"),
        ("--owner", "two\nlines", "one line"),
        ("--owner", "x" * 201, "at most 200"),
    ],
)
def test_an_invalid_value_is_named_and_no_key_is_created(
    run, store: ClientKeys, option: str, value: str, told: str
) -> None:
    code, printed, explained = run("add", "alice", option, value)
    assert (code, printed) == (2, "")
    assert option in explained
    assert told in explained
    assert store.all() == []


@pytest.mark.parametrize("name", ["", " ", "a b", "-x", "a\nb", "x" * 65, "é", "'; --", "a/b"])
def test_an_unsafe_name_is_refused(run, store: ClientKeys, name: str) -> None:
    code, printed, explained = run("add", "--", name)
    assert (code, printed) == (2, "")
    assert "a name must consist of" in explained
    assert store.all() == []


def test_set_changes_only_the_given_values(run, store: ClientKeys) -> None:
    run(
        "add",
        "alice",
        "--rpm",
        "10",
        "--models",
        "gpt-5",
        "--from",
        "::1",
        "--expires",
        "90d",
        "--owner",
        "A",
    )
    before = store.all()[0].rules
    assert run("set", "ALICE", "--tpm", "5")[0] == 0
    assert store.all()[0].rules.limits == Limits(requests_per_minute=10, tokens_per_minute=5)
    code, printed, _ = run("set", "alice", "--rpm", "0", "--tpm", "0", "--models", "*", "--from", "anywhere")
    assert (code, "limits   none" in printed) == (0, True)
    after = store.all()[0].rules
    assert (after.limits, after.models, after.networks) == (Limits(), (), ())
    assert (after.owner, after.expires) == (before.owner, before.expires)
    run("set", "alice", "--expires", "never", "--owner", "")
    assert (store.all()[0].rules.owner, store.all()[0].rules.expires) == ("", None)


def test_a_dialect_is_shown_and_removed(run, store: ClientKeys) -> None:
    run("add", "alice", "--dialect", "openai")
    assert "dialect  openai" in run("set", "alice", "--rpm", "3")[1]
    assert run("list")[1].splitlines()[1].split()[-3] == "openai"
    assert json.loads(run("list", "--json")[1])[0]["dialect"] == "openai"
    assert "dialect  auto" in run("set", "alice", "--dialect", "auto")[1]


def test_strict_mode_is_shown_and_turned_off(run, store: ClientKeys) -> None:
    run("add", "alice", "--strict", "yes")
    assert "strict   yes" in run("set", "alice", "--rpm", "3")[1]
    assert json.loads(run("list", "--json")[1])[0]["strict"] is True
    assert "strict   no" in run("set", "alice", "--strict", "no")[1]
    assert store.all()[0].rules.strict is False


def test_the_rule_for_the_cache_is_shown_and_removed(run, store: ClientKeys) -> None:
    run("add", "alice", "--cache", "off")
    assert "cache    off" in run("set", "alice", "--rpm", "3")[1]
    assert json.loads(run("list", "--json")[1])[0]["cache"] == "off"
    assert "cache    auto" in run("set", "alice", "--cache", "auto")[1]
    assert store.all()[0].rules.cache == ""


def test_rotate_prints_the_new_secret_and_the_old_ones_expiry(run, store: ClientKeys) -> None:
    old = run("add", "alice")[1].strip()
    code, printed, explained = run("rotate", "alice")
    assert (code, well_formed(printed.strip())) == (0, True)
    assert "stays valid for 1 day" in explained
    held = store.secrets_by_digest()
    assert held[digest(old)].expires == pytest.approx(time.time() + 86400, abs=30)
    assert held[digest(printed.strip())].expires is None
    for grace, words in (("1m", "1 minute"), ("90m", "90 minutes"), ("36h", "36 hours"), ("2w", "14 days")):
        assert f"stays valid for {words}." in run("rotate", "alice", "--grace", grace)[2]
    assert "no longer valid" in run("rotate", "alice", "--grace", "0")[2]
    assert len(run("show", "alice")[1].split("gbk_…")) == 2
    assert run("rotate", "alice", "--grace", "later")[0] == 2


def test_revoking_is_permanent(run) -> None:
    run("add", "alice")
    code, printed, explained = run("revoke", "alice")
    assert (code, printed) == (0, "")
    assert "revoked" in explained
    assert "revoked" in run("list")[1]
    assert "revoked" in run("show", "alice")[1]
    for again in (("add", "Alice"), ("rotate", "alice"), ("set", "alice", "--rpm", "1")):
        code, printed, explained = run(*again)
        assert (code, printed) == (1, "")
        assert "revoked" in explained
    assert run("revoke", "alice")[0] == 0


def test_an_unknown_name_gets_a_suggestion(run) -> None:
    assert "there are no keys" in run("show", "alice")[2]
    run("add", "alice")
    for action in ("show", "revoke", "rotate", "set"):
        code, printed, explained = run(action, "alcie")
        assert (code, printed) == (1, "")
        assert "there is no key 'alcie'; did you mean alice?" in explained


def test_list_prints_a_table_or_json(run) -> None:
    code, printed, explained = run("list")
    assert (code, printed) == (0, "")
    assert "key add NAME" in explained
    assert json.loads(run("list", "--json")[1]) == []
    run("add", "alice", "--rpm", "1000", "--models", "gpt-5", "--expires", "2099-01-31")
    run("add", "bob")
    heading, alice, bob = run("list")[1].splitlines()
    assert heading.split() == [
        "NAME",
        "OWNER",
        "STATE",
        "MODELS",
        "LIMITS",
        "FROM",
        "EXPIRES",
        "DIALECT",
        "STRICT",
        "CACHE",
    ]
    assert "1,000 requests/min" in alice
    assert bob.split() == ["bob", "-", "good", "all", "none", "anywhere", "never", "auto", "no", "auto"]
    listed = json.loads(run("list", "--json")[1])
    assert [key["name"] for key in listed] == ["alice", "bob"]
    assert listed[0]["limits"] == {"requests_per_minute": 1000}
    assert (listed[0]["expires"], listed[1]["expires"]) == ("2099-02-01T00:00:00+00:00", None)


def test_no_command_prints_a_key_again(run, store: ClientKeys) -> None:
    secret = run("add", "alice")[1].strip()
    for arguments in (
        ("list",),
        ("list", "--json"),
        ("show", "alice"),
        ("show", "alice", "--json"),
        ("set", "alice", "--rpm", "3"),
        ("revoke", "alice"),
    ):
        _, printed, explained = run(*arguments)
        assert secret[:-4] not in printed + explained
        assert digest(secret).hex() not in printed + explained


def test_an_expired_key_is_shown_as_such(run, state: Path) -> None:
    run("add", "alice", "--expires", "90d")
    with closing(sqlite3.connect(state / KEYS_FILE)) as database:
        database.execute("UPDATE key SET rules = json_set(rules, '$.expires', 5)")
        database.commit()
    assert "expired" in run("list")[1]


def test_an_unusable_file_is_named(run, state: Path) -> None:
    (state / KEYS_FILE).write_bytes(b"This is no database. " * 100)
    code, printed, explained = run("list")
    assert (code, printed) == (1, "")
    assert str(state / KEYS_FILE) in explained
    assert explained.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["add"], ["list", "alice"], ["add", "a", "--nonsense"]]
)
def test_wrong_arguments_say_where_the_help_is(run, arguments: list[str]) -> None:
    code, printed, explained = run(*arguments)
    assert (code, printed) == (2, "")
    assert "gemini-bridge key" in explained
    assert "--help" in explained


def test_the_commands_of_the_operations_page_work_as_written(run) -> None:
    page = (ROOT / "docs" / "OPERATIONS.md").read_text()
    commands = re.findall(r"^gemini-bridge key (.+)$", page, re.MULTILINE)
    assert {shlex.split(command)[0] for command in commands} == {
        "add",
        "list",
        "show",
        "set",
        "rotate",
        "revoke",
    }
    for command in commands:
        code, _, explained = run(*shlex.split(command))
        assert code == 0, f"{command}: {explained}"


def test_the_operations_page_names_every_option() -> None:
    page = (ROOT / "docs" / "OPERATIONS.md").read_text()
    for flag in OPTIONS:
        assert f"`{flag}`" in page


def test_a_lost_key_store_is_reported_with_a_remedy(run, store: ClientKeys, state: Path) -> None:
    old = run("add", "alice")[1].strip()
    (state / KEYS_FILE).unlink()
    for command in (("list",), ("add", "bob"), ("revoke", "alice")):
        code, printed, explained = run(*command)
        assert (code, printed) == (1, "")
        assert "is missing" in explained
        assert "--new-store" in explained
    code, new, explained = run("add", "bob", "--new-store")
    assert code == 0
    assert {digest(new.strip())} == set(store.secrets_by_digest())
    assert digest(old) not in store.secrets_by_digest()


def test_a_pattern_that_matches_no_gemini_model_is_reported(run) -> None:
    assert "Note" not in run("add", "alice", "--models", "gemini-*flash*,claude-opus-4-8")[2]
    assert "'claude-*' matches no Gemini model" in run("add", "bob", "--models", "claude-*")[2]
    assert "'gpt-*' matches no Gemini model" in run("set", "alice", "--models", "gpt-*")[2]
