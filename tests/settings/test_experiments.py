"""config/experiments.toml: rows, and what stops the start."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from command_line import attempt
from gunicorn_bridge import ROOT

from bridge.settings import Settings, SettingsError, load
from bridge.settings.experiments import ARM, ROW, SHADOW, Experiment, load_experiments
from bridge.settings.name_patterns import patterns_meet
from bridge.settings.routes import Target

ENVIRON = {"GEMINI_API_KEY": "default-key-0000", "ONE_KEY": "AIzaCanary0000000000000000000000000one"}
HEAD = '[[experiment]]\nname = "pro"\naliases = ["sonnet"]\n'
A = '[[experiment.arm]]\nname = "a"\nweight = 50\n'
B = '[[experiment.arm]]\nname = "b"\nweight = 50\nmodel = "gemini-3.8-flash"\n'
SHADOW_ROW = '[[experiment.shadow]]\nname = "s"\nmodel = "gemini-3.8-flash"\ncost_per_day = 5\n'
PLACE = "experiments.toml: [[experiment]] 1"

Write = Callable[..., Settings]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    folder.mkdir()
    for name in ("default.toml", "models.toml"):
        shutil.copy(ROOT / "config" / name, folder)
    return folder


@pytest.fixture
def written(folder: Path) -> Write:
    def write(rows: str, upstreams: str = "", environ: dict[str, str] = ENVIRON) -> Settings:
        (folder / "experiments.toml").write_text(rows)
        (folder / "upstreams.toml").write_text(upstreams)
        return load(folder, environ)

    return write


def one(written: Write, rows: str) -> Experiment:
    (found,) = written(rows).experiments
    return found


def test_the_delivered_file_has_no_row_and_describes_every_key() -> None:
    path = ROOT / "config" / "experiments.toml"
    assert load_experiments(path) == ()
    text = path.read_text()
    keys = {*ROW, *ARM, *SHADOW} - {"arm", "shadow"}
    assert [key for key in sorted(keys) if not re.search(rf"\b{key}\b", text)] == []


def test_without_the_file_there_is_no_experiment(folder: Path) -> None:
    assert load(folder, ENVIRON).experiments == ()


def test_a_row_with_its_defaults(written: Write) -> None:
    found = one(written, HEAD + A + B)
    assert (found.unit, found.keys, found.except_keys, found.testers) == ("conversation", ("*",), (), ())
    assert found.control.name == "a"
    assert [arm.models for arm in found.arms] == [(), (Target("default", "gemini-3.8-flash"),)]
    assert found.runs(date(2020, 1, 1))
    assert found.shadows == ()


def test_every_key_of_a_row(written: Write) -> None:
    head = HEAD + (
        'unit = "key"\nfrom = 2026-11-01\nuntil = 2026-11-30\nkeys = ["team-*"]\n'
        'except_keys = ["team-x"]\ntesters = ["ann"]\n'
    )
    shadow = SHADOW_ROW + 'share = 0.5\nthinking = "low"\n'
    found = one(written, head + A + B + 'thinking = "none"\n' + shadow)
    assert (found.unit, found.keys, found.except_keys) == ("key", ("team-*",), ("team-x",))
    assert found.testers == ("ann",)
    days = (date(2026, 10, 31), date(2026, 11, 1), date(2026, 11, 30), date(2026, 12, 1))
    assert list(map(found.runs, days)) == [False, True, True, False]
    assert [arm.thinking for arm in found.arms] == ["", "none"]
    (shadowed,) = found.shadows
    assert (shadowed.share, shadowed.cost_per_day, shadowed.thinking) == (0.5, 5.0, "low")


def test_an_arm_may_be_at_another_upstream(written: Write) -> None:
    upstream = '[[upstream]]\nname = "one"\nkind = "gemini"\napi_key = "env:ONE_KEY"\nmodels = ["qwen*"]\n'
    arms = B.replace("gemini-3.8-flash", "one:any") + B.replace('"b"', '"c"').replace("gemini-3.8", "qwen")
    (found,) = written(HEAD + A + arms, upstream).experiments
    assert [arm.models for arm in found.arms[1:]] == [(Target("one", "any"),), (Target("", "qwen-flash"),)]


def test_experiments_for_one_alias_may_follow_each_other(written: Write) -> None:
    second = HEAD.replace('"pro"', '"two"')
    rows = f"{HEAD}until = 2026-11-10\n{A}{B}{second}from = 2026-11-11\n{A}{B}"
    assert len(written(rows).experiments) == 2


def test_the_example_in_the_document_is_valid(written: Write) -> None:
    text = (ROOT / "docs" / "EXPERIMENTS.md").read_text()
    (rows,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    found = one(written, rows)
    assert [arm.name for arm in found.arms] == ["pro", "flash-high"]


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a*", "*b", True),
        ("a*b", "ac*", True),
        ("claude-*-4", "claude-sonnet-*", True),
        ("claude-*haiku*", "*sonnet*", True),
        ("gpt-*", "claude-*", False),
        ("gpt-*-mini", "gpt-5", False),
        ("*", "", True),
        ("a*a", "a", False),
    ],
)
def test_two_patterns_meet_if_one_name_matches_both(one: str, other: str, meet: bool) -> None:
    assert patterns_meet(one, other) is meet
    assert patterns_meet(other, one) is meet


# --- what stops the start -----------------------------------------------------------------------------

SECOND = HEAD.replace('"pro"', '"two"')


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("[[experiments]]\n", ["experiments.toml: experiments is unknown", "experiment?"]),
        ("[[experiment\n", ["experiments.toml: invalid TOML"]),
        ("[[experiment]]\n" + A + B, [f"{PLACE}: name is missing"]),
        ('[[experiment]]\nname = "x"\n' + A + B, [f"{PLACE}: aliases is missing"]),
        (HEAD, [f"{PLACE}: arm is missing"]),
        (HEAD + A, [f"{PLACE}: arm", "two arms, or one arm and a shadow"]),
        (HEAD.replace("pro", "Pro!") + A + B, [f"{PLACE}: name must be"]),
        (HEAD + 'unit = "request"\n' + A + B, [f"{PLACE}: unit", "conversation or key", "request"]),
        (HEAD + "from = 2026-12-01\nuntil = 2026-11-30\n" + A + B, [f"{PLACE}: from", "is after until"]),
        (HEAD + 'from = "soon"\n' + A + B, [f"{PLACE}: from must be a date"]),
        (HEAD + 'key = ["ann"]\n' + A + B, [f"{PLACE}: key is unknown", "keys?"]),
        (HEAD + A + A, [f"{PLACE}: name: there are two arms named a"]),
        (HEAD + A + SHADOW_ROW.replace('"s"', '"a"'), [f"{PLACE}: name: there are two arms named a"]),
        (HEAD + A + B.replace("50", "0"), [f"{PLACE}: [[arm]] 2: weight", "from 1", "not 0"]),
        (HEAD + A + B.replace("50", "-1"), [f"{PLACE}: [[arm]] 2: weight", "not -1"]),
        (HEAD + A + B.replace("50", "0.5"), [f"{PLACE}: [[arm]] 2: weight must be a whole number"]),
        (HEAD + A + B.replace("weight = 50\n", ""), [f"{PLACE}: [[arm]] 2: weight is missing"]),
        (HEAD + A + B + "wieght = 3\n", [f"{PLACE}: [[arm]] 2: wieght is unknown", "weight?"]),
        (HEAD + A + B + 'thinking = "max"\n', [f"{PLACE}: [[arm]] 2: thinking", "minimal", "max"]),
        (
            HEAD + A + B.replace("3.8-flash", "3-pro-image") + 'thinking = "low"\n',
            [f"{PLACE}: [[arm]] 2: thinking: 'gemini-3-pro-image' takes no thinking level"],
        ),
        (
            HEAD + A + B.replace("gemini-3.8-flash", "sonnet"),
            [f"{PLACE}: [[arm]] 2: model", "no upstream serves 'sonnet'"],
        ),
        (
            HEAD + A + SHADOW_ROW.replace("gemini-3.8-flash", "qwen3"),
            [f"{PLACE}: [[shadow]] 1: model", "no upstream serves 'qwen3'"],
        ),
        (
            HEAD + A + SHADOW_ROW.replace("gemini-3.8-flash", "gemini-99-unpriced"),
            [f"{PLACE}: [[shadow]] 1: model", "no price"],
        ),
        (HEAD + A + SHADOW_ROW.replace("cost_per_day = 5\n", ""), ["[[shadow]] 1: cost_per_day is missing"]),
        (HEAD + A + SHADOW_ROW + "share = 0\n", ["[[shadow]] 1: share"]),
        (HEAD + A + SHADOW_ROW + "share = 2\n", ["[[shadow]] 1: share"]),
        (
            HEAD.replace("sonnet", "gemini-3.8-flash") + A + B,
            [f"{PLACE}: aliases: 'gemini-3.8-flash' names models"],
        ),
        (HEAD.replace("sonnet", "gemini-*") + A + B, [f"{PLACE}: aliases: 'gemini-*' names models"]),
        (
            HEAD + A + B + SECOND.replace("sonnet", "SON*") + A + B,
            ["[[experiment]] 2: aliases: 'SON*' is in [[experiment]] 1 (pro)"],
        ),
        (
            HEAD + A + B + HEAD.replace("sonnet", "opus") + A + B,
            ["[[experiment]] 2: name: [[experiment]] 1 has the name pro too"],
        ),
    ],
)
def test_a_mistake_stops_the_start_with_file_and_key(written: Write, rows: str, words: list[str]) -> None:
    with pytest.raises(SettingsError) as raised:
        written(rows)
    for word in words:
        assert word in str(raised.value)


def test_an_arm_whose_upstream_is_missing_stops_the_start(written: Write) -> None:
    upstream = '[[upstream]]\nname = "one"\nkind = "gemini"\napi_key = "env:ONE_KEY"\nmodels = ["gemini-*"]\n'
    environ = {"ONE_KEY": ENVIRON["ONE_KEY"], "DEFAULT_MODEL": "gemini-3.8-flash"}
    with pytest.raises(SettingsError) as raised:
        written(HEAD + A + B.replace("gemini-3.8-flash", "qwen3"), upstream, environ)
    assert f"{PLACE}: [[arm]] 2: model: no upstream serves 'qwen3'" in str(raised.value)


@pytest.mark.parametrize("right", [True, False])
def test_check_reads_the_file(folder: Path, tmp_path: Path, right: bool) -> None:
    (folder / "experiments.toml").write_text(HEAD + A + (B if right else ""))
    settings = {"BRIDGE_CONFIG_DIR": str(folder), "BRIDGE_STATE_DIR": str(tmp_path / "state")}
    told = attempt("check", **settings)
    assert (told.returncode == 0) is right
    assert re.search(rf"experiments\.toml +{'ok' if right else 'wrong'}", told.stdout)
    assert right or "there must be two arms" in told.stderr
