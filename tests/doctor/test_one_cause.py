"""One cause makes one red finding; checks that it makes pointless are skipped and name it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import attempt
from gunicorn_bridge import ROOT, free_port, gunicorn_bridge
from small_server import answering

from bridge.doctor.checks import CHECKS
from bridge.doctor.examination import examine
from bridge.doctor.finding import Check, Installation, Level, green, red, yellow
from bridge.settings import SettingsError

KEY = "AIza" + "a" * 30
#: Nothing listens on this port.
NOBODY = "127.0.0.1:9"
ROUTE = {"certificate", "clock", "upstream key", "models"}
#: All checks that read the settings.
NEED_SETTINGS = {check.name for check in CHECKS} - {
    *("python", "packages", "path files", "configuration", "systemd", "public address")
}


def refuse_the_key(_path: str, _headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    refusal = {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "no", "details": details}}
    return 400, {}, json.dumps(refusal).encode()


def examined(folder: Path, **environment: str) -> dict[str, dict[str, str]]:
    """The findings for a bridge that runs, and would need a restart for these settings."""
    with gunicorn_bridge() as bridge:
        own = {
            "CODER_AGENT_PORT": bridge.address.rpartition(":")[2],
            "BRIDGE_STATE_DIR": str(folder / "state"),
            "REQUESTS_CA_BUNDLE": "",
            "NO_PROXY": "127.0.0.1",
        }
        done = attempt("doctor", "--json", **{**own, **environment})
    assert done.returncode == 1, done.stdout
    return {found["check"]: found for found in json.loads(done.stdout)}


def levels(found: dict[str, dict[str, str]], level: Level) -> set[str]:
    return {name for name, each in found.items() if each["level"] == level}


def file_for_state(folder: Path) -> dict[str, str]:
    (folder / "file").touch()
    return {"BRIDGE_STATE_DIR": str(folder / "file")}


def spoilt_files(folder: Path) -> dict[str, str]:
    (folder / "state").mkdir(mode=0o700)
    for name in ("keys.sqlite3", "accounts.sqlite3"):
        (folder / "state" / name).write_text("no database, and longer than its header would be")
    return {}


def upstream_for_nothing(folder: Path) -> dict[str, str]:
    config = folder / "config"
    config.mkdir()
    for file in (ROOT / "config").glob("*.toml"):
        (config / file.name).write_bytes(file.read_bytes())
    row = '[[upstream]]\nname = "away"\nkind = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodels = ["m"]\n'
    (config / "upstreams.toml").write_text(row)
    return {"BRIDGE_CONFIG_DIR": str(config), "GEMINI_API_KEY": ""}


GEMINI = {"GEMINI_API_KEY": KEY}
SET_UPS = {
    "an upstream that is down": (
        lambda _: {**GEMINI, "GOOGLE_GEMINI_BASE_URL": f"http://{NOBODY}"},
        "network route",
        ROUTE,
    ),
    "a host that does not exist": (
        lambda _: {**GEMINI, "GOOGLE_GEMINI_BASE_URL": "https://no-such-host.invalid"},
        "network route",
        ROUTE,
    ),
    "a proxy that is down": (
        lambda _: {
            **GEMINI,
            "GOOGLE_GEMINI_BASE_URL": "https://gemini.invalid",
            "HTTPS_PROXY": f"http://{NOBODY}",
        },
        "network route",
        ROUTE,
    ),
    "a CA bundle that is missing": (
        lambda _: {
            **GEMINI,
            "GOOGLE_GEMINI_BASE_URL": f"https://{NOBODY}",
            "REQUESTS_CA_BUNDLE": "/no/such.pem",
        },
        "network route",
        ROUTE,
    ),
    "an unknown setting": (lambda _: {"BRIDGE_SERVER__PRT": "1"}, "configuration", NEED_SETTINGS),
    "no key for Gemini": (
        lambda _: {"BRIDGE_UPSTREAM__TRANSPORT": "gemini"},
        "configuration",
        {"network route", *ROUTE, "gunicorn"},
    ),
    "others can reach it without a key": (
        lambda _: {"BRIDGE_SERVER__HOST": "0.0.0.0"},
        "configuration",
        {"access", "gunicorn"},
    ),
    "models that nobody serves": (upstream_for_nothing, "configuration", NEED_SETTINGS),
    "a database that is down": (
        lambda folder: {"BRIDGE_STATE_DIR": str(folder), "BRIDGE_STATE_URL": f"postgresql://u:p@{NOBODY}/db"},
        "database",
        {"database clock", "database use", "state files", "access"},
    ),
    "state files that are damaged": (spoilt_files, "state files", {"access"}),
    "a file in place of the state folder": (file_for_state, "state folder", {"access"}),
}


@pytest.mark.parametrize("name", SET_UPS)
def test_a_broken_set_up_has_one_red_finding(name: str, tmp_path: Path) -> None:
    make, cause, pointless = SET_UPS[name]
    broken: Callable[[Path], dict[str, str]] = make
    found = examined(tmp_path, **broken(tmp_path))
    assert levels(found, Level.RED) == {cause}
    assert levels(found, Level.SKIPPED) - {"service"} == pointless - {"service"}
    told = {found[each]["says"] for each in pointless}
    assert told == {f"not checked: solve “{cause}” first"}


def test_a_key_that_is_refused_has_one_red_finding(tmp_path: Path) -> None:
    with answering(refuse_the_key) as address:
        found = examined(tmp_path, GEMINI_API_KEY=KEY, GOOGLE_GEMINI_BASE_URL=address)
    assert levels(found, Level.RED) == {"upstream key"}
    assert levels(found, Level.SKIPPED) == {"models"}


def test_a_bridge_that_does_not_run_has_one_red_finding(tmp_path: Path) -> None:
    port, state = str(free_port()), str(tmp_path / "state")
    done = attempt("doctor", CODER_AGENT_PORT=port, BRIDGE_STATE_DIR=state)
    assert done.returncode == 1
    assert re.findall(r"^FAIL  (.*?)  ", done.stdout, re.MULTILINE) == ["service"]
    assert "state folder" not in re.findall(r"^note  (.*?)  ", done.stdout, re.MULTILINE)


def test_each_cause_has_one_line_for_all_that_it_makes_pointless(tmp_path: Path) -> None:
    done = attempt("doctor", BRIDGE_STATE_DIR=str(tmp_path), BRIDGE_STATE_URL=f"postgresql://u:p@{NOBODY}/db")
    assert "skip  database clock, database use, state files, access, service\n" in done.stdout
    assert done.stdout.endswith("→ not checked: solve “database” first\n")
    assert done.stderr == ""


def unreadable(_: Installation) -> None:
    raise SettingsError("no")


def test_a_skipped_check_passes_its_cause_on_and_a_green_one_stays() -> None:
    checks = (
        Check("first", lambda _: red("broken", "mend it")),
        Check("second", lambda _: yellow("unclear", "see the first"), after=("first",)),
        Check("third", lambda _: red("broken too", "mend the first"), after=("second",)),
        Check("works", lambda _: green("fine"), after=("first",)),
        Check("after works", lambda _: red("broken", "mend it"), after=("works",)),
        Check("settings", unreadable),
        Check("after settings", lambda _: red("broken", "mend it"), after=("settings",)),
    )
    found = {check.name: finding for check, finding in examine(Installation.local(), checks)}
    assert found["second"].says == found["third"].says == "not checked: solve “first” first"
    assert found["works"].level is Level.GREEN
    assert found["after works"].level is Level.RED
    assert found["after settings"].says == "not checked: solve “configuration” first"


def test_a_check_comes_after_the_checks_that_it_names() -> None:
    names = [check.name for check in CHECKS]
    for place, check in enumerate(CHECKS):
        assert set(check.after) <= set(names[:place])
