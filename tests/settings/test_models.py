"""Model names and capabilities: the delivered table, the matching rules, and errors in the file."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from gunicorn_bridge import ROOT

from bridge.gemini.model_capabilities import LEVELS, ModelCapabilities
from bridge.settings import SettingsError, load
from bridge.settings.models import LONGEST_NAME, Alias, ModelRow, ModelTable
from bridge.settings.models_file import load_models
from bridge.settings.routes import Target
from bridge.settings.upstreams import DEFAULT

SHIPPED = load_models(ROOT / "config" / "models.toml")

PRO = "gemini-pro-latest"
FLASH = "gemini-flash-latest"


# --- names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gemini-3.8-flash", "gemini-3.8-flash"),
        ("models/gemini-4-argon", "gemini-4-argon"),
        ("gemini-99-ultra-mini", "gemini-99-ultra-mini"),
        ("gemma-3-27b-it", "gemma-3-27b-it"),
        ("learnlm-2.0", "learnlm-2.0"),
        ("demo", "demo"),
        ("demo-slow", "demo-slow"),
        ("gpt-5", PRO),
        ("gpt-5-codex", PRO),
        ("gpt-4o", PRO),
        ("chatgpt-4o-latest", PRO),
        ("o1", PRO),
        ("o1-preview", PRO),
        ("o3", PRO),
        ("claude-sonnet-4-5", PRO),
        ("claude-sonnet-4-5-20250929", PRO),
        ("claude-opus-4-8[1m]", PRO),
        ("sonnet", PRO),
        ("opus", PRO),
        ("Claude-Opus-4-8", PRO),
        ("GPT-5", PRO),
        ("gpt-5-mini", FLASH),
        ("gpt-5-nano-2025-08-07", FLASH),
        ("gpt-4o-mini", FLASH),
        ("gpt-5.1-codex-mini", FLASH),
        ("codex-mini-latest", FLASH),
        ("gpt-3.5-turbo", FLASH),
        ("o3-mini", FLASH),
        ("o4-mini-high", FLASH),
        ("claude-haiku-4-5", FLASH),
        ("claude-3-5-haiku-20241022", FLASH),
        ("HAIKU", FLASH),
        ("models/haiku", FLASH),
        ("qwen3-coder", FLASH),
        ("demonstration", FLASH),
        ("", FLASH),
        ("gemini", FLASH),
    ],
)
def test_the_delivered_table_resolves_other_vendors_model_names(name: str, expected: str) -> None:
    assert SHIPPED.resolve(name) == expected
    assert SHIPPED.resolve(name) == expected  # from the cache


def test_the_default_can_be_overridden() -> None:
    table = load_models(ROOT / "config" / "models.toml", "models/gemini-x")
    assert table.default == "gemini-x"
    assert table.resolve("unheard-of") == "gemini-x"
    assert table.resolve("haiku") == FLASH


def test_exact_names_are_listed_with_their_model() -> None:
    listed = dict(SHIPPED.aliases)
    wanted = (
        "gpt-5 gpt-5-codex gpt-5-mini gpt-4o gpt-4o-mini claude-sonnet-4-5 claude-opus-4-8 claude-haiku-4-5"
    )
    assert set(wanted.split()) <= set(listed)
    assert not any("*" in name for name in listed)
    assert all(SHIPPED.resolve(name) == model for name, model in SHIPPED.aliases)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gemini-4-argon[1m]", "gemini-4-argon"),
        ("models/gemini-4-argon[1M]", "gemini-4-argon"),
        ("claude/gemini-flash-latest", FLASH),
        ("claude/gemini-flash-latest[1m]", FLASH),
        ("claude/gpt-5", PRO),
        ("gpt-5-mini[1m]", FLASH),
    ],
)
def test_model_name_suffixes_are_removed_before_the_lookup(name: str, expected: str) -> None:
    assert SHIPPED.resolve(name) == expected


def test_only_the_star_is_special_in_a_pattern() -> None:
    table = ModelTable(["d"], aliases=[Alias(("a.b", "c[12]", "x?", "p*q*r"), ("m",))])
    for name in ("a.b", "c[12]", "x?", "pqr", "p-1-q\n2r", "A.B"):
        assert table.resolve(name) == "m", name
    for name in ("axb", "c1", "xy", "pr", "a.b\n", "za.b"):
        assert table.resolve(name) == "d", name


def test_the_first_matching_row_wins() -> None:
    table = ModelTable(
        ["d"],
        ["as-is-*"],
        [Alias(("x-1",), ("one",)), Alias(("x-*", "as-*"), ("any",))],
        [ModelRow(("x-1",), ModelCapabilities("f", prefill=True)), ModelRow(("*",), ModelCapabilities("g"))],
    )
    assert [table.resolve(name) for name in ("x-1", "x-2", "as-is-1")] == ["one", "any", "as-is-1"]
    assert table.capabilities("x-1") == ModelCapabilities("f", prefill=True)
    assert table.capabilities("y") == ModelCapabilities("g")


def test_an_empty_table_gives_the_default_for_every_name() -> None:
    table = ModelTable(["d"])
    assert [table.resolve(name) for name in ("", "x")] == ["d", "d"]
    assert table.aliases == ()
    assert table.capabilities("x") == ModelCapabilities(family="x")


def test_the_name_cache_is_bounded() -> None:
    table = ModelTable(["d"], ["*"])
    for number in range(3000):
        table.resolve(f"name-{number}")
        table.capabilities(f"name-{number}")
    assert table._cached_meaning.cache_info().currsize == 1024
    assert table._cached_capabilities.cache_info().currsize == 1024


def test_an_overlong_name_is_not_cached() -> None:
    table = ModelTable(["d"], ["*"])
    assert table.resolve("x" * (LONGEST_NAME + 1)) == "d"
    assert table.capabilities("x" * (LONGEST_NAME + 1)) == ModelCapabilities()
    assert table._cached_capabilities.cache_info().currsize == 0
    assert table._cached_meaning.cache_info().currsize == 1  # the default's


# --- retired models ----------------------------------------------------------------------------------


@pytest.fixture
def aged(tmp_path: Path) -> Callable[[str], ModelTable]:
    path = tmp_path / "models.toml"
    path.write_text(
        """
default = ["old", "new"]
pass_through = ["gone", "old", "older", "moved", "new", "newer", "useless"]
[[lifecycle]]
match = ["older"]
shut_down = 2026-01-01
replacement = ["old", "new"]
[[lifecycle]]
match = ["old"]
shut_down = 2026-06-01
replacement = ["newer"]
[[lifecycle]]
match = ["moved"]
rerouted = 2026-06-01
replacement = ["newer"]
[[lifecycle]]
match = ["useless"]
shut_down = 2026-01-01
""",
        "utf-8",
    )
    return lambda retired: load_models(path, retired=retired)


@pytest.mark.parametrize(
    ("name", "day", "models", "retired"),
    [
        ("older", "2025-12-31", ("older",), None),
        ("older", "2026-01-01", ("old", "new"), "older"),
        ("older", "2026-06-01", ("newer", "new"), "older"),
        ("unheard-of", "2026-05-31", ("old", "new"), None),
        ("unheard-of", "2026-06-01", ("newer", "new"), "old"),
        ("moved", "2026-06-01", ("newer",), "moved"),
        ("useless", "2026-06-01", (), "useless"),
    ],
)
def test_a_retired_model_is_replaced_from_its_retirement_date(
    aged: Callable[[str], ModelTable], name: str, day: str, models: tuple[str, ...], retired: str | None
) -> None:
    meant = aged("replace").meaning(name, date.fromisoformat(day))
    assert (tuple(target.model for target in meant.models), meant.retired) == (models, retired)


def test_replacing_retired_models_can_be_switched_off(
    aged: Callable[[str], ModelTable],
) -> None:
    table, day = aged("refuse"), date(2026, 6, 1)
    assert table.meaning("older", day) == ((), "older")
    assert table.meaning("unheard-of", day) == (
        (Target(DEFAULT, "new"),),
        "old",
    )  # the next model of the row is current
    assert table.meaning("moved", day) == (
        (Target(DEFAULT, "newer"),),
        "moved",
    )  # as Google itself resolves it


def test_a_table_of_an_earlier_version_uses_the_delivered_retirements(tmp_path: Path) -> None:
    own = tmp_path / "models.toml"
    own.write_text('default = "gemini-2.5-flash"\npass_through = ["gemini-*"]\n', "utf-8")
    (tmp_path / "default.toml").write_text("", "utf-8")
    assert load(tmp_path, {}).models.resolve("anything") == "gemini-3.8-flash"
    own.write_text('default = "gemini-2.5-flash"\nlifecycle = []\n', "utf-8")
    assert load(tmp_path, {}).models.resolve("anything") == "gemini-2.5-flash"


@pytest.mark.parametrize(
    "name", ["text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002"]
)
def test_a_name_of_an_embedding_model_means_one_model_and_is_in_no_list(name: str) -> None:
    assert SHIPPED.meaning(name) == ((Target(DEFAULT, "gemini-embedding-2"),), None)
    assert "gemini-embedding-2" not in {target.model for target in SHIPPED.known_targets}
    assert name not in dict(SHIPPED.aliases)


def test_every_model_in_the_delivered_table_is_current() -> None:
    named = {target.model for row in SHIPPED.target_rows for target in row}
    named |= {model for row in SHIPPED.lifecycle.rows for model in row.replacement}
    retired = {model: SHIPPED.lifecycle.row_of(model) for model in named}
    assert [model for model, row in retired.items() if row and row.since <= date(2026, 11, 18)] == []


# --- capabilities ------------------------------------------------------------------------------------

WINDOW = 1048576
GEMINI_2: dict[str, Any] = {"family": "gemini-2.5", "output_limit": 65536, "window": WINDOW}
GEMINI_3: dict[str, Any] = {
    "family": "gemini-3",
    "window": WINDOW,
    "needs_signatures": True,
    "tool_media": True,
    "json_beside_tools": True,
    "output_limit": 65536,
}
DEMO: dict[str, Any] = {
    "family": "demo",
    "window": WINDOW,
    "tool_media": True,
    "json_beside_tools": True,
    "output_limit": 65536,
}
THREE_LEVELS = ("low", "medium", "high")
SEARCHING = GEMINI_3 | {"search_beside_functions": True}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            "gemini-2.5-pro",
            ModelCapabilities(**GEMINI_2, thinking_budget=(128, 32768), prefill=True),
        ),
        (
            "models/gemini-2.5-pro",
            ModelCapabilities(**GEMINI_2, thinking_budget=(128, 32768), prefill=True),
        ),
        (
            "gemini-2.5-flash",
            ModelCapabilities(
                **GEMINI_2,
                thinking_budget=(1, 24576),
                thinking_can_be_off=True,
                prefill=True,
            ),
        ),
        (
            "gemini-2.5-flash-lite-preview",
            ModelCapabilities(
                **GEMINI_2,
                thinking_budget=(512, 24576),
                thinking_can_be_off=True,
                prefill=True,
            ),
        ),
        ("gemini-2.5-flash-image", ModelCapabilities("gemini-2.5", window=32768, draws=True)),
        ("gemini-3-pro-image", ModelCapabilities(**GEMINI_3 | {"window": 65536}, draws=True)),
        (
            "gemini-3.1-pro-preview",
            ModelCapabilities(**SEARCHING, thinking_levels=THREE_LEVELS, summary_model=FLASH),
        ),
        ("gemini-3-flash-preview", ModelCapabilities(**SEARCHING, thinking_levels=LEVELS)),
        ("gemini-3.1-flash-lite", ModelCapabilities(**SEARCHING, thinking_levels=LEVELS)),
        ("gemini-3.5-flash-lite", ModelCapabilities(**SEARCHING, thinking_levels=LEVELS)),
        ("gemini-3.6-flash", ModelCapabilities(**SEARCHING, thinking_levels=LEVELS)),
        ("gemini-3.8-flash", ModelCapabilities(**SEARCHING, thinking_levels=THREE_LEVELS)),
        ("gemini-3.9-new", ModelCapabilities(**GEMINI_3, thinking_levels=("low", "high"))),
        (
            "gemini-4-argon",
            ModelCapabilities(
                **GEMINI_3 | {"family": "gemini-4"},
                thinking_levels=THREE_LEVELS,
                shared_window=True,
                output_floor=2048,
                ignores_sampling=True,
                summary_model=FLASH,
            ),
        ),
        ("demo", ModelCapabilities(**DEMO, thinking_levels=LEVELS, prefill=True)),
        ("gemma-3-27b-it", ModelCapabilities("gemma-3-27b-it", thinking_levels=THREE_LEVELS)),
        ("gemini-2.0-flash", ModelCapabilities("gemini-2.0-flash", prefill=True, window=WINDOW)),
        (
            "gemini-flash-latest",
            ModelCapabilities(
                **GEMINI_3 | {"family": "gemini-latest"}, thinking_levels=THREE_LEVELS, output_floor=2048
            ),
        ),
        (
            "gemini-9-unheard-of",
            ModelCapabilities(
                "gemini-9-unheard-of",
                thinking_levels=THREE_LEVELS,
                needs_signatures=True,
                tool_media=True,
                output_floor=2048,
            ),
        ),
    ],
)
def test_the_delivered_table_has_the_capabilities_of_each_model(
    model: str, expected: ModelCapabilities
) -> None:
    assert SHIPPED.capabilities(model) == expected


def test_no_model_is_named_in_the_code() -> None:
    named = re.compile(r"""["'](gemini-\d|gpt-|claude-|gemma-)""")
    for path in (ROOT / "bridge").rglob("*.py"):
        assert not named.search(path.read_text("utf-8")), path


# --- errors ------------------------------------------------------------------------------------------


def lifecycle(*rows: str) -> str:
    return 'default = "m"\n' + "\n".join(f"[[lifecycle]]\n{row}" for row in rows)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["default is missing"]),
        ('default = ""', ["default is missing"]),
        ('default = [""]', ["default must be a list of texts"]),
        ("default = 3", ["default must be a list of texts, not 3"]),
        ('defualt = "m"', ["defualt is unknown", "did you mean default?"]),
        ('default = "m"\nalias = 1', ["alias must be a list of tables"]),
        ('default = "m"\npass_through = [1]', ["pass_through must be a list of texts"]),
        ('default = "m"\n[[alias]]\nmodel = "m"', ["[[alias]] 1: match is missing"]),
        ('default = "m"\n[[alias]]\nmatch = []\nmodel = "m"', ["[[alias]] 1: match is missing"]),
        (
            'default = "m"\n[[alias]]\nmatch = ["a"]\nmodel = "m"\n[[alias]]\nmatch = ["b"]',
            ["[[alias]] 2: model is missing"],
        ),
        (
            'default = "m"\n[[alias]]\nmatch = ["a"]\nmdoel = "m"',
            ["[[alias]] 1: mdoel is unknown; did you mean model?"],
        ),
        ('default = "m"\n[[embedding]]\nmatch = ["a"]', ["[[embedding]] 1: model is missing"]),
        ('default = "m"\n[[model]]\nfamily = "f"', ["[[model]] 1: match is missing"]),
        (
            'default = "m"\n[[model]]\nmatch = ["a"]\nprefil = true',
            ["[[model]] 1: prefil is unknown; did you mean prefill?"],
        ),
        (
            'default = "m"\n[[model]]\nmatch = ["a"]\nprefill = 1',
            ["[[model]] 1: prefill must be true or false, not 1"],
        ),
        (
            'default = "m"\n[[model]]\nmatch = ["a"]\nthinking_budget = [5, 1]',
            ["[[model]] 1: thinking_budget must be a list of two whole numbers, the smaller first"],
        ),
        (
            'default = "m"\n[[model]]\nmatch = ["a"]\nthinking_budget = [5]',
            ["[[model]] 1: thinking_budget must be a list of two whole numbers"],
        ),
        (
            'default = "m"\n[[model]]\nmatch = ["a"]\nthinking_levels = ["hihg"]',
            ["[[model]] 1: thinking_levels: hihg is not a thinking level; did you mean high?"],
        ),
        (
            'default = "m"\n[[model]]\nmatch = ["a"]\ntools = "txt"',
            ["[[model]] 1: tools: txt is not a possible value; did you mean text?"],
        ),
        (
            'default = "m"\n[[model]]\nmatch = ["a"]\nthink = "hide"',
            ["[[model]] 1: think: hide is not a possible value; known names: show, drop, off"],
        ),
        (
            'default = "m"\n[[model]]\nmatch = ["a"]\nthink_opens = "templat"',
            ["[[model]] 1: think_opens: templat is not a possible value; did you mean template?"],
        ),
        (
            'default = "m"\n[[model]]\nmatch = ["a"]\nparameter_map = { read = "path" }',
            ["[[model]] 1: parameter_map must be a table of tables of texts, not a table"],
        ),
        (
            'default = "m"\n[[model]]\nmatch = ["a"]\nthinking_levels = ["low"]\nthinking_budget = [1, 2]',
            ["[[model]] 1: set either thinking_budget or thinking_levels, not both"],
        ),
        ("default =", ["invalid TOML"]),
        (lifecycle('shut_down = 2026-01-01\nreplacement = "b"'), ["[[lifecycle]] 1: match is missing"]),
        (
            lifecycle('match = ["a"]\nreplacement = "b"'),
            ["[[lifecycle]] 1: set either shut_down or rerouted"],
        ),
        (
            lifecycle('match = ["a"]\nshut_down = 2026-01-01\nrerouted = 2026-01-01\nreplacement = "b"'),
            ["[[lifecycle]] 1: set either shut_down or rerouted", "not both"],
        ),
        (
            lifecycle('match = ["a"]\nshut_down = "in spring"'),
            ["[[lifecycle]] 1: shut_down must be a date such as 2026-12-01, not 'in spring'"],
        ),
        (lifecycle('match = ["a"]\nrerouted = 2026-01-01'), ["[[lifecycle]] 1: replacement is missing"]),
        (
            lifecycle('match = ["a*"]\nshut_down = 2026-01-01\nreplacement = "ab"'),
            ["[[lifecycle]] 1: replacement: ab leads back to a*"],
        ),
        (
            lifecycle(
                'match = ["a"]\nshut_down = 2026-01-01\nreplacement = "b"',
                'match = ["b"]\nshut_down = 2027-01-01\nreplacement = ["x", "c"]',
                'match = ["c"]\nrerouted = 2026-01-01\nreplacement = "a"',
            ),
            ["[[lifecycle]] 1: replacement: b leads back to a"],
        ),
    ],
)
def test_an_error_in_the_table_is_named(tmp_path: Path, text: str, parts: list[str]) -> None:
    path = tmp_path / "models.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(SettingsError) as caught:
        load_models(path)
    message = str(caught.value)
    assert [part for part in [str(path), *parts] if part not in message] == [], message


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"models\.toml: the file does not exist"):
        load_models(tmp_path / "models.toml")
