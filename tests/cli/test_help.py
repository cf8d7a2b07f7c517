"""The help, the man page, docs/COMMANDS.md, and the words that a newcomer gets wrong."""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
import subprocess
import sys

import pytest
from command_line import attempt, command
from gunicorn_bridge import ROOT

from bridge.cli import COMMANDS, main, make_parser
from bridge.cli.command import EXIT_CODES, PROGRAM
from bridge.cli.outline import Outline, outline

ALL = list(outline().all())
LEAVES = [each for each in ALL if not each.below]
#: They print a log, a script, JSON lines, or the text of an answer.
WITHOUT_JSON = {
    "serve",
    "completion",
    "agent show",
    "agent resume",
    "backup",
    "restore",
    "import litellm",
}


def named(each: Outline) -> str:
    return each.path or PROGRAM


def help_of(each: Outline, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*each.words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("each", ALL, ids=named)
def test_every_help_has_an_example_and_a_description(each, capsys):
    shown = help_of(each, capsys)
    example = f"\nexamples:\n  {' '.join([PROGRAM, *each.words])}"
    assert example in shown, f"add Example({each.path!r} …) to the Command"
    assert each.help in " ".join(shown.split())
    assert all(argument.help for argument in each.arguments)


@pytest.mark.parametrize(
    "words", [example.words for name in COMMANDS for example in COMMANDS[name].examples], ids=str
)
def test_every_example_is_a_valid_call(words):
    called, _, _redirected = words.partition(" >")
    parsed = make_parser().parse_args(shlex.split(called))
    assert parsed.command == words.split()[0]


@pytest.mark.parametrize("each", LEAVES, ids=named)
def test_every_command_that_prints_data_has_json(each):
    flags = {flag for argument in each.arguments for flag in argument.flags}
    assert ("--json" in flags) != (each.path in WITHOUT_JSON)


# --- wrong words ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("stauts", "gemini-bridge: argument command: unknown: 'stauts'; did you mean status?"),
        ("key lst", "gemini-bridge key: argument action: unknown: 'lst'; did you mean list?"),
        ("settings --jsno", "gemini-bridge settings: unknown argument --jsno; did you mean --json?"),
        ("key list --jsno", "gemini-bridge key list: unknown argument --jsno; did you mean --json?"),
        ("connect codex --ulr=http://a", "unknown argument --ulr=http://a; did you mean --url?"),
        (
            "serve --port 80",
            "takes no options\nExample: gemini-bridge serve  # listen on the address of the settings",
        ),
        ("status now", "gemini-bridge status: unknown argument now"),
        ("completion bsh", "unknown: 'bsh'; did you mean bash?"),
        ("state copy --from sqlit --to postgres", "unknown: 'sqlit'; did you mean sqlite?"),
        ("usage --by modle", "argument --by: 'modle' is unknown; did you mean model?"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_right_one(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert "Help: gemini-bridge" in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("words", [[], ["key"], ["state"]])
def test_a_command_without_its_action_shows_the_help(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "examples:" in capsys.readouterr().err


def test_misspelt_names_of_keys_are_answered_with_the_right_one(tmp_path):
    command("key", "add", "alice", BRIDGE_STATE_DIR=str(tmp_path))
    for words in (["key", "show", "alcie"], ["cache", "clear", "--key", "alcie"]):
        done = attempt(*words, BRIDGE_STATE_DIR=str(tmp_path))
        assert (done.returncode, done.stdout) == (1, "")
        assert "there is no key 'alcie'; did you mean alice?" in done.stderr


# --- exit codes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code"),
    [("settings --json", 0), ("check", 0), ("key show nobody", 1), ("status --url http://127.0.0.1:9", 1)],
)
def test_exit_codes(words, code, tmp_path):
    done = attempt(*words.split(), BRIDGE_STATE_DIR=str(tmp_path))
    assert done.returncode == code, done.stderr
    assert code in EXIT_CODES


def test_ctrl_c_ends_without_a_traceback(monkeypatch, capsys):
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bridge.cli.settings.load", interrupted)
    assert main(["settings"]) == 130
    assert capsys.readouterr().err == "\ngemini-bridge: interrupted\n"


# --- what is generated ------------------------------------------------------------------------------


def generator():
    spec = importlib.util.spec_from_file_location("docs_commands", ROOT / "docs" / "commands.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_and_the_man_page_match_the_parsers():
    made = generator()
    assert made.PAGE.read_text() == made.page(), "run: make man"
    assert made.MAN_PAGE.read_text() == made.man_page(), "run: make man"


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
def test_mandoc_finds_no_fault_in_the_man_page():
    page = ROOT / "deploy" / "gemini-bridge.1"
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True, check=False
    )
    faults = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert faults == []  # the page has no date, so that it changes only with the parsers


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man_shows_every_command():
    shown = subprocess.run(
        ["man", "-l", ROOT / "deploy" / "gemini-bridge.1"],
        env={"PATH": "/usr/bin:/bin", "MANWIDTH": "200", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stderr == ""
    for each in LEAVES:
        assert f"   {PROGRAM} {each.path}" in shown.stdout


def test_the_status_line_imports_only_what_it_needs():
    """It runs in status bars, every few seconds."""
    code = (
        "import sys; from bridge.cli import main; main(['status', '--url', 'http://127.0.0.1:9']);"
        "print(*sorted(name for name in sys.modules if name.startswith('bridge.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & {
        "bridge.state",
        "bridge.connect.probe",
        "bridge.cli.key",
        "bridge.doctor",
        "bridge.web",
    }


# --- JSON and hints ---------------------------------------------------------------------------------


def printed_json(*words: str, **environment: str):
    return json.loads(command(*words, **environment))


def test_every_action_of_key_prints_json(tmp_path):
    state = {"BRIDGE_STATE_DIR": str(tmp_path)}
    added = printed_json("key", "add", "alice", "--json", **state)
    rotated = printed_json("key", "rotate", "alice", "--grace", "1h", "--json", **state)
    assert added["name"] == rotated["name"] == "alice"
    assert added["key"] != rotated["key"]
    assert printed_json("key", "set", "alice", "--rpm", "5", "--json", **state)["limits"] == {
        "requests_per_minute": 5
    }
    shown = printed_json("key", "show", "alice", "--json", **state)
    assert [value["hint"] for value in shown["values"]] == [rotated["key"][-4:], added["key"][-4:]]
    assert [value["expires"] is None for value in shown["values"]] == [True, False]
    assert printed_json("key", "revoke", "alice", "--json", **state)["state"] == "revoked"


def test_check_state_and_cache_print_json(tmp_path):
    state = {"BRIDGE_STATE_DIR": str(tmp_path)}
    checked = attempt("check", "--json", **state)
    assert checked.returncode == 0
    assert all(each["ok"] and each["error"] is None for each in json.loads(checked.stdout))
    assert printed_json("state", "upgrade", "--json", **state) == {"done": []}
    assert printed_json("cache", "clear", "--json", **state) == {"deleted": 0}


def test_check_prints_the_errors_as_json_and_exits_2(tmp_path):
    done = attempt("check", "--json", BRIDGE_STATE_DIR=str(tmp_path), BRIDGE_SERVER__PORT="0")
    assert done.returncode == 2
    assert [each["error"] for each in json.loads(done.stdout) if not each["ok"]]


def test_connect_prints_clients_settings_and_findings_as_json():
    assert {"name": "codex", "title": "Codex CLI"}.items() <= printed_json("connect", "--json")[0].items()
    shown = printed_json("connect", "codex", "--json", "--url", "http://a", "--model", "m")
    assert 'base_url = "http://a/v1"' in shown["snippets"][0]["text"]
    done = attempt("connect", "codex", "--probe", "--json", "--url", "http://127.0.0.1:9", "--model", "m")
    assert done.returncode == 1
    (finding,) = json.loads(done.stdout)
    assert (finding["good"], finding["detail"]) == (False, "connection refused")


def test_a_misspelt_model_is_noted():
    note = "the model gemini-3.6-flahs is not in config/models.toml; did you mean gemini-3.6-flash?"
    assert note in attempt("connect", "curl", "--model", "gemini-3.6-flahs").stderr
    assert "Note" not in attempt("connect", "curl", "--model", "gemini-9.5-flash").stderr
    assert "Note" not in attempt("connect", "curl", "--model", "gpt-5").stderr


def test_a_key_may_name_a_misspelt_model_with_a_note(tmp_path):
    done = attempt("key", "add", "a", "--models", "gemini-3.6-flahs", BRIDGE_STATE_DIR=str(tmp_path))
    assert done.returncode == 0
    assert "did you mean gemini-3.6-flash?" in done.stderr


def test_a_change_of_nothing_is_an_error(tmp_path):
    command("key", "add", "alice", BRIDGE_STATE_DIR=str(tmp_path))
    done = attempt("key", "set", "alice", BRIDGE_STATE_DIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "name at least one rule to change, such as --rpm 60" in done.stderr


def test_a_large_cost_is_written_in_digits(tmp_path):
    state = {"BRIDGE_STATE_DIR": str(tmp_path)}
    command("key", "add", "alice", "--cost-per-day", "1250000.5", **state)
    assert "cost 1,250,000.5/day" in command("key", "show", "alice", **state)


def test_a_misspelt_protocol_is_answered_with_the_right_one(tmp_path):
    file = tmp_path / "request.json"
    file.write_text('{"model": "gemini-3.6-flash", "messages": [{"role": "user", "content": "Hello"}]}')
    done = attempt("context", "explain", str(file), "--protocol", "opnai_chat")
    assert done.returncode == 1
    assert "There is no protocol 'opnai_chat'; did you mean openai_chat?" in done.stderr


def test_the_doctor_wants_a_whole_address():
    done = attempt("doctor", "--url", "ai.example.com")
    assert done.returncode == 2
    assert "--url must be an http:// or https:// address" in done.stderr
