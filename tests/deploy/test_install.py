"""The install script in a scratch root: installation, upgrade and removal.

The commands are copied from docs/OPERATIONS.md; only the paths are changed.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import stat
import subprocess
import sys
import termios
from pathlib import Path

import pytest
import requests
from gunicorn_bridge import ROOT, serves
from openai import AuthenticationError, OpenAI, RateLimitError
from scratch_root import Scratch, answer_of, blocks, choose_port, copy_of_the_project
from waiting import eventually

from bridge import __version__

SCRIPT = ROOT / "deploy" / "install.sh"
PYTHON = ("--python", sys.executable)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels downloaded as documented, by the Python that installs them."""
    folder = tmp_path_factory.mktemp("offline")
    lines = "".join(blocks("Install")).splitlines()
    download = next(line for line in lines if "pip download" in line)
    command = download.replace("python3", sys.executable).replace(
        "requirements.lock", f"{ROOT}/requirements.lock"
    )
    subprocess.run(["sh", "-euc", f"{command} --quiet"], cwd=folder, check=True, timeout=300)
    return folder / "wheels"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Scratch:
    """Freshly installed, without a key."""
    made = Scratch.below(tmp_path_factory.mktemp("scratch"), wheels)
    done = made.install(*PYTHON)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return every file below the folder with its time and contents."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- a fresh installation ----------------------------------------------------------------------------


def test_all_files_are_installed(scratch: Scratch) -> None:
    assert scratch.release() == __version__
    etc = scratch.path("/etc/gemini-bridge")
    for name in ("default.toml", "models.toml", "guards.toml"):
        assert (etc / name).read_bytes() == (ROOT / "config" / name).read_bytes()
    assert not (etc / "local.toml").exists()
    unit = scratch.path("/etc/systemd/system/gemini-bridge.service")
    assert unit.read_bytes() == (ROOT / "deploy" / "gemini-bridge.service").read_bytes()
    assert mode(etc / "credentials") == 0o700
    assert mode(etc / "credentials" / "gemini_api_key") == 0o600
    assert mode(etc / "credentials" / "state_url") == 0o600
    assert mode(scratch.path("/var/lib/gemini-bridge")) == 0o700
    manual = scratch.path("/usr/local/share/man/man1/gemini-bridge.1")
    assert manual.read_bytes() == (ROOT / "deploy" / "gemini-bridge.1").read_bytes()


def test_the_installed_command_checks_the_installed_configuration(scratch: Scratch) -> None:
    checked = scratch.run("gemini-bridge check")
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.endswith("\nok\n")
    assert f"{scratch.path('/etc/gemini-bridge/models.toml')}" in checked.stdout
    assert "no key: the offline demo model" in checked.stdout


def test_the_installed_command_uses_the_services_settings_only(scratch: Scratch) -> None:
    ours = {"BRIDGE_SERVER__PORT": "1", "GEMINI_API_KEY": "callers", "HTTPS_PROXY": "http://callers:1"}
    scratch.path("/etc/gemini-bridge/env").write_text("# a comment\n\nBRIDGE_SERVER__THREADS='33'\nDEBUG=1\n")
    shown = subprocess.run(
        [scratch.path("/usr/local/bin/gemini-bridge"), "settings"],
        env=scratch.environment | ours,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert re.search(r"server.threads +33 +environment BRIDGE_SERVER__THREADS", shown)
    assert re.search(r"log.debug +true", shown)
    assert re.search(r"server.port +41242", shown)
    assert shown.endswith("Upstream in force: demo\n")


def test_the_installed_command_uses_the_database_of_the_credential(scratch: Scratch) -> None:
    credential = scratch.path("/etc/gemini-bridge/credentials/state_url")
    credential.write_text("postgresql://user:canary-password@127.0.0.1:1/bridge\n")
    shown = scratch.run("gemini-bridge settings").stdout
    assert re.search(r"state.url +postgresql://user:••••@127.0.0.1:1/bridge", shown)
    credential.write_text("")
    assert "postgresql" not in scratch.run("gemini-bridge settings").stdout
    assert scratch.run("gemini-bridge state upgrade").stdout == "The tables are up to date.\n"


def test_the_unit_commands_start_and_reload_the_service(scratch: Scratch) -> None:
    address = choose_port(scratch)
    local = scratch.path("/etc/gemini-bridge/local.toml")
    with scratch.service() as running:
        assert "demo model" in answer_of(address)
        local.write_text("[server]\nthraeds = 1\n")
        assert not scratch.reload(running)
        local.write_text("[log]\nlevel = 'warning'\n")
        assert scratch.reload(running)
        assert "demo model" in answer_of(address)
        assert running.poll() is None
    local.unlink()


def test_an_installed_key_serves_a_client_hits_its_limit_and_is_revoked(scratch: Scratch) -> None:
    address = choose_port(scratch)
    key = scratch.run("sudo gemini-bridge key add alice --rpm 2").stdout.strip()
    with scratch.service() as running, OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0) as client:
        assert eventually(lambda: serves(f"{address}/readyz"))
        assert (
            key in scratch.run(f"sudo gemini-bridge connect openai-python --url {address} --key {key}").stdout
        )
        for _ in range(2):
            assert "demo model" in _asked(client)
        with pytest.raises(RateLimitError, match="alice"):
            _asked(client)
        assert eventually(lambda: _requests_of_alice(scratch) == 2), "the refused one reached no model"
        counted = requests.get(f"{address}/metrics", timeout=30).text
        assert 'outcome="completed"' in counted
        assert 'error="limited"' in counted
        assert scratch.run("sudo gemini-bridge key revoke alice").returncode == 0
        assert eventually(lambda: _is_shut_out(client))
        assert scratch.reload(running)
        assert eventually(lambda: serves(f"{address}/readyz"))
        assert _is_shut_out(client)
    for file in filter(Path.is_file, scratch.path("/var/lib/gemini-bridge").iterdir()):
        file.unlink()


def _asked(client: OpenAI) -> str:
    messages = [{"role": "user", "content": "Who are you?"}]
    return client.chat.completions.create(model="gpt-5", messages=messages).choices[0].message.content


def _is_shut_out(client: OpenAI) -> bool:
    try:
        _asked(client)
    except AuthenticationError:
        return True
    except RateLimitError:
        return False
    return False


def _requests_of_alice(scratch: Scratch) -> int:
    told = scratch.run("sudo gemini-bridge usage --by key --json").stdout
    return sum(row["requests"] for row in json.loads(told)["rows"] if row["key"] == "alice")


# --- all documented steps ----------------------------------------------------------------------------


def test_the_documented_installation_and_upgrade_steps_work(
    scratch: Scratch, wheels: Path, tmp_path: Path, canary_key: str
) -> None:
    source = copy_of_the_project(tmp_path / "first", __version__)
    shutil.copytree(wheels, source / "wheels")
    (source / "gemini.key").write_text(f"{canary_key}\n")
    told = _install(scratch, source)
    told += _try_out(scratch, source)
    told += _upgrade(scratch, tmp_path)
    told += _back_up(scratch, source)
    told += _uninstall(scratch, source)
    assert canary_key not in told


def _ran(scratch: Scratch, script: str, folder: Path) -> str:
    done = scratch.run(script, folder)
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def _install(scratch: Scratch, source: Path) -> str:
    plain, with_key, to_try, offline, first_client = blocks("Install")
    told = _ran(scratch, plain, source)
    assert f"release {__version__}: already installed" in told
    before = tree(scratch.path("/etc"))
    assert "packages:" not in _ran(scratch, plain, source)
    assert tree(scratch.path("/etc")) == before
    told += _ran(scratch, with_key, source)
    credential = scratch.path("/etc/gemini-bridge/credentials/gemini_api_key")
    assert credential.read_text().strip() == (source / "gemini.key").read_text().strip()
    assert mode(credential) == 0o600
    told += _ran(scratch, to_try.replace("$PWD/scratch", str(scratch.root)), source)
    told += _ran(scratch, offline.splitlines()[-1], source)
    credential.write_text("")  # use the demo model from here on
    made = scratch.run(first_client)
    assert made.returncode == 0, made.stderr
    scratch.client_key = made.stdout.strip()
    return told


def _try_out(scratch: Scratch, source: Path) -> str:
    address = choose_port(scratch)
    day_to_day, front_door = blocks("Day to day")
    with scratch.service():
        assert "demo model" in answer_of(address, scratch.client_key)
        assert requests.post(f"{address}/v1/chat/completions", json={}, timeout=30).status_code == 401
        told = _ran(scratch, day_to_day, source)
        check_credentials = front_door.replace("https://ai.example.com", address)
        assert "answered 401" in scratch.run(check_credentials).stdout
        told += _ran(scratch, check_credentials.replace("a-client-key", scratch.client_key), source)
    assert "FAIL" not in told
    assert "a key is needed; 1 defined" in told
    assert "streaming works" in told
    for block in (*blocks("Settings"), *blocks("Read the log")[:1]):
        told += _ran(scratch, block.splitlines()[0], source)
    scratch.path("/etc/nginx/conf.d").mkdir(parents=True)
    told += _ran(scratch, "".join(blocks("nginx")), source)
    assert "server_name ai.example.com;" in scratch.path("/etc/nginx/conf.d/gemini-bridge.conf").read_text()
    return told


def _upgrade(scratch: Scratch, folder: Path) -> str:
    newer = copy_of_the_project(folder / "newer", "9.9.9")
    etc = scratch.path("/etc/gemini-bridge")
    for name in ("default.toml", "models.toml", "guards.toml"):
        (newer / "config" / name).write_text("# newer\n" + (ROOT / "config" / name).read_text())
    mine = "# mine\n" + (etc / "models.toml").read_text()
    (etc / "models.toml").write_text(mine)
    (etc / "local.toml").write_text("[server]\nworkers = 1\n")

    (command,) = blocks("Upgrade")
    told = _ran(scratch, command, newer)
    assert (scratch.release(), scratch.release("previous")) == ("9.9.9", __version__)
    assert scratch.run("gemini-bridge --version").stdout == "gemini-bridge 9.9.9\n"
    assert (etc / "default.toml").read_text().startswith("# newer")
    assert (etc / "guards.toml").read_text().startswith("# newer")
    assert (etc / "models.toml").read_text() == mine
    assert (etc / "models.toml.new").read_text().startswith("# newer")
    assert (etc / "local.toml").read_text() == "[server]\nworkers = 1\n"
    _refuse_what_does_not_fit(scratch, newer)
    return told + _roll_back(scratch, newer, mine)


def _refuse_what_does_not_fit(scratch: Scratch, newer: Path) -> None:
    local = scratch.path("/etc/gemini-bridge/local.toml")
    local.write_text("[server]\nworkesr = 1\n")
    before = tree(scratch.path("/etc"))
    refused = scratch.install(folder=newer)
    assert refused.returncode == 1
    assert f"{local}: server.workesr is not a setting; did you mean workers?" in refused.stderr
    assert "nothing was changed" in refused.stderr
    assert scratch.install("--rollback", folder=newer).returncode == 1
    assert tree(scratch.path("/etc")) == before
    assert scratch.release() == "9.9.9"
    local.write_text("[server]\nworkers = 1\n")


def _roll_back(scratch: Scratch, newer: Path, mine: str) -> str:
    etc = scratch.path("/etc/gemini-bridge")
    (command,) = blocks("Roll back")
    told = _ran(scratch, command, newer)
    assert (scratch.release(), scratch.release("previous")) == (__version__, "9.9.9")
    assert scratch.run("gemini-bridge --version").stdout == f"gemini-bridge {__version__}\n"
    assert (etc / "default.toml").read_bytes() == (ROOT / "config" / "default.toml").read_bytes()
    assert (etc / "guards.toml").read_bytes() == (ROOT / "config" / "guards.toml").read_bytes()
    assert (etc / "models.toml").read_text() == mine
    told += _ran(scratch, command, newer)
    assert scratch.release() == "9.9.9"
    address = choose_port(scratch)
    with scratch.service():
        assert "demo model" in answer_of(address, scratch.client_key)
    return told


def _back_up(scratch: Scratch, source: Path) -> str:
    save, restore = blocks("Back up")
    told = _ran(scratch, save, source)
    assert mode(scratch.path("/var/backups/gemini-bridge/backup.tar.gz")) == 0o600
    told += _ran(scratch, save, source)  # the nightly backup
    keys = scratch.path("/var/lib/gemini-bridge/keys.sqlite3")
    keys.write_bytes(b"spoilt")
    assert "FAIL  state files" in scratch.run("gemini-bridge doctor").stdout
    told += _ran(scratch, restore, source)
    assert "ok    state files" in scratch.run("gemini-bridge doctor").stdout
    return told


def _uninstall(scratch: Scratch, source: Path) -> str:
    first, second = "".join(blocks("Uninstall")).splitlines()
    told = _ran(scratch, first, source)
    for gone in (
        "/opt/gemini-bridge",
        "/usr/local/bin/gemini-bridge",
        "/usr/local/share/man/man1/gemini-bridge.1",
        "/etc/systemd/system/gemini-bridge.service",
    ):
        assert not scratch.path(gone).exists()
    assert scratch.path("/etc/gemini-bridge/local.toml").exists()
    assert scratch.path("/var/lib/gemini-bridge/keys.sqlite3").exists()
    told += _ran(scratch, second, source)
    left = {str(path.relative_to(scratch.root)) for path in scratch.root.rglob("*") if not path.is_dir()}
    assert left == {
        "etc/nginx/conf.d/gemini-bridge.conf",
        *(
            f"var/backups/gemini-bridge/{path.name}"
            for path in scratch.path("/var/backups/gemini-bridge").iterdir()
        ),
    }
    return told


# --- refusals ----------------------------------------------------------------------------------------


def refused(*options: str, tools: Path | None = None, **environment: str) -> str:
    path = f"{tools}:{os.environ['PATH']}" if tools else os.environ["PATH"]
    ran = subprocess.run(
        [SCRIPT, *options],
        env={"PATH": path, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("install.sh: ")
    assert ran.stderr.count("\n") == 1
    return ran.stderr


def tool(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    return folder


def test_without_root_the_installer_says_how_to_run_it(tmp_path: Path) -> None:
    tools = tool(tmp_path, "id", "echo 1000")
    for options in ([], ["--rollback"], ["--uninstall", "--purge"]):
        assert "run this script as root: sudo " in refused(*options, tools=tools)


@pytest.mark.skipif(Path("/run/systemd/system").exists(), reason="systemd runs here: it would really install")
def test_without_systemd_the_installer_says_how_to_try_it(tmp_path: Path) -> None:
    assert "DESTDIR=/some/folder" in refused(tools=tool(tmp_path, "id", "echo 0"))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            'case "$*" in *version_info*) exit 1;; -V) echo Python 3.9.2;; esac',
            "Python 3.9.2, and the bridge needs 3.11 or newer",
        ),
        ('case "$*" in *ensurepip*) exit 1;; esac', "apt install python3-venv"),
    ],
)
def test_an_unsuitable_python_is_refused(tmp_path: Path, script: str, reason: str) -> None:
    tool(tmp_path, "python3.9", script)
    said = refused("--python", str(tmp_path / "python3.9"), DESTDIR=str(tmp_path / "root"))
    assert reason in said
    assert "--python /path/to/python3.12" in said
    assert "/no/python does not exist" in refused("--python", "/no/python", DESTDIR=str(tmp_path / "root"))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--nonsense"], "--nonsense is not an option"),
        (["--wheels"], "--wheels needs a value"),
        (["--purge"], "--purge needs --uninstall"),
        (["--rollback"], "there is no previous release"),
        (["--key-file", "/no/such/key", *PYTHON], "/no/such/key cannot be read"),
        (["--key-file", "/dev/null", *PYTHON], "the key file /dev/null is empty"),
    ],
)
def test_wrong_arguments_change_nothing_and_are_explained(
    tmp_path: Path, options: list[str], reason: str
) -> None:
    root = tmp_path / "root"
    assert reason in refused(*options, DESTDIR=str(root))
    assert list(root.rglob("*")) == [] if root.exists() else True


def test_an_incomplete_release_is_refused(tmp_path: Path) -> None:
    source = copy_of_the_project(tmp_path / "half", "1.0.0")
    (source / "requirements.lock").unlink()
    ran = subprocess.run(
        [source / "deploy" / "install.sh", *PYTHON],
        env={"PATH": os.environ["PATH"], "DESTDIR": str(tmp_path / "root")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    assert "requirements.lock is missing" in ran.stderr


def test_a_build_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    ran = subprocess.run(
        [SCRIPT, *PYTHON, "--wheels", tmp_path / "wheels"],
        env={"PATH": os.environ["PATH"], "DESTDIR": str(tmp_path / "root")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode != 0
    assert "No matching distribution" in ran.stderr
    assert [path for path in (tmp_path / "root").rglob("*") if path.is_file()] == []


def test_the_key_prompt_hides_input_and_can_be_cancelled(tmp_path: Path, canary_key: str) -> None:
    root = tmp_path / "root"
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [SCRIPT, *PYTHON],
        env={"PATH": os.environ["PATH"], "DESTDIR": str(root)},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        # Background test runs ignore this signal, and a shell cannot trap an ignored signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as running:
        os.close(theirs)
        seen = _read_until(ours, b"demo model): ")
        assert eventually(lambda: not termios.tcgetattr(ours)[3] & termios.ECHO)
        os.write(ours, f"{canary_key}\n".encode())
        seen += _read_until(ours, b"building in")
        os.killpg(running.pid, signal.SIGINT)
        assert running.wait(60) != 0
    os.close(ours)
    assert canary_key.encode() not in seen
    assert [path for path in root.rglob("*") if path.is_file()] == []


def _read_until(terminal: int, words: bytes) -> bytes:
    seen = b""
    while words not in seen:
        seen += os.read(terminal, 1000)
    return seen
