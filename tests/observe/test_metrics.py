"""Metrics: what is counted, under which labels, in which files, and who may read it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from scripted_gemini import sse, text_chunk

from bridge.gemini.types import Usage
from bridge.observe import metrics, metrics_folder, state_metrics
from bridge.observe.record import ArmOfRequest, Record
from bridge.settings import load
from bridge.web.app import create_app
from bridge.web.user_agent import client_program

PAGE = Path(__file__).parent.parent.parent / "docs" / "OBSERVABILITY.md"


def counted(name: str, **labels: str) -> float:
    found = [
        sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
        if sample.name == f"gemini_bridge_{name}" and labels.items() <= sample.labels.items()
    ]
    return sum(found)


def values(name: str, label: str) -> set[str]:
    return {
        sample.labels[label]
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
        if sample.name == f"gemini_bridge_{name}"
    }


def ended(model: str | None = "gemini-a", outcome: str = "completed", **fields) -> Record:
    record = Record("req_1", "POST", "/v1/chat/completions", protocol="openai_chat", **fields)
    record.upstream_model, record.outcome, record.status = model, outcome, 200
    record.usage = Usage()
    record.asks_model()
    return record


# --- labels ------------------------------------------------------------------------------------------


def test_a_request_is_counted_by_its_kind_and_outcome():
    observe = metrics.RequestMetrics({"gemini-a"})
    before = counted("requests_total", model="gemini-a", outcome="failed", error="overloaded")
    record = ended(outcome="failed")
    record.error = "overloaded"
    observe(record)
    assert counted("requests_total", model="gemini-a", outcome="failed", error="overloaded") == before + 1


def test_a_model_becomes_a_label_only_after_it_has_answered():
    observe = metrics.RequestMetrics({"gemini-a"})
    others = counted("requests_total", model="other")
    observe(ended("gemini-invented-1", "failed"))
    observe(ended("gemini-invented-2", "client_left"))
    real = ended("gemini-real-1", "client_left")
    real.usage = Usage({"promptTokenCount": 1})
    observe(real)
    observe(ended("gemini-real-1", "failed"))
    assert counted("requests_total", model="other") == others + 2
    assert counted("requests_total", model="gemini-real-1") == 2
    assert not {"gemini-invented-1", "gemini-invented-2"} & values("requests_total", "model")


def test_the_number_of_model_labels_is_bounded():
    observe = metrics.RequestMetrics(())
    for number in range(metrics.MOST_MODELS + 50):
        record = ended(f"anything-{number}")
        record.usage = Usage({"promptTokenCount": 1})
        observe(record)
    assert f"anything-{metrics.MOST_MODELS - 1}" in values("requests_total", "model")
    assert f"anything-{metrics.MOST_MODELS}" not in values("requests_total", "model")


def test_cost_is_counted_by_model_and_by_key():
    observe = metrics.RequestMetrics({"gemini-c"}, lambda record: 0.25)
    observe(ended("gemini-c", key="key-of-costs-a"))
    observe(ended("gemini-c", key="key-of-costs-b"))
    observe(ended("gemini-c", "failed", key="key-of-costs-a"))
    assert counted("cost_usd_total", model="gemini-c") == 0.75
    assert counted("key_cost_usd_total", key="key-of-costs-a") == 0.5
    assert counted("key_requests_total", key="key-of-costs-a", outcome="failed") == 1


def test_the_number_of_key_labels_is_bounded():
    observe = metrics.RequestMetrics({"gemini-c"})
    for number in range(metrics.MOST_KEYS + 3):
        observe(ended("gemini-c", key=f"many-{number}"))
    assert counted("key_requests_total", key=f"many-{metrics.MOST_KEYS - 1}") == 1
    assert f"many-{metrics.MOST_KEYS}" not in values("key_requests_total", "key")
    assert counted("key_requests_total", key="other") == 3


def test_a_request_that_reached_no_model_has_no_duration():
    before = counted("request_duration_seconds_count")
    metrics.RequestMetrics(())(Record("req_1", "GET", "/nowhere"))
    assert counted("request_duration_seconds_count") == before
    assert counted("requests_total", protocol="none", model="none") > 0


def test_tokens_are_counted_once_each():
    usage = {"promptTokenCount": 100, "cachedContentTokenCount": 30, "candidatesTokenCount": 7}
    record = ended("gemini-t")
    record.usage = Usage({**usage, "thoughtsTokenCount": 5})
    metrics.RequestMetrics({"gemini-t"})(record)
    kinds = {
        kind: counted("tokens_total", model="gemini-t", kind=kind) for kind in values("tokens_total", "kind")
    }
    assert kinds == {"input": 70, "cached": 30, "output": 7, "reasoning": 5}


def test_time_to_first_byte_is_measured_for_streams_only():
    observe = metrics.RequestMetrics({"gemini-f"})
    whole, streamed, left = ended("gemini-f"), ended("gemini-f", stream=True), ended("gemini-f", stream=True)
    whole.first_byte()
    streamed.first_byte()
    for record in (whole, streamed, left):
        observe(record)
    assert counted("first_byte_seconds_count", model="gemini-f") == 1
    assert counted("request_duration_seconds_count", model="gemini-f") == 3


def test_notes_are_counted_without_client_chosen_text():
    record = ended()
    record.notes.update(
        {
            "guard.loop.answered": 1,
            "guard.shell_gate.held_back.shadow": 2,
            "history.result_moved": 3,
            "responses.tool:anything a client likes": 4,
        }
    )
    metrics.RequestMetrics({"gemini-a"})(record)
    assert counted("guard_actions_total", guard="loop", action="answered", mode="enforce") == 1
    assert counted("guard_actions_total", guard="shell_gate", action="held_back", mode="shadow") == 2
    assert counted("notes_total", note="history.result_moved") == 3
    assert counted("notes_total", note="responses.tool") == 4
    assert not [note for note in values("notes_total", "note") if "client" in note]


def test_attempts_and_cooldowns_are_counted_by_cause():
    record = ended()
    record.notes.update({"retry.overloaded": 2, "cooldown.rate_limited": 1})
    before = counted("upstream_retries_total"), counted("upstream_cooldowns_total")
    metrics.RequestMetrics({"gemini-a"})(record)
    after = counted("upstream_retries_total"), counted("upstream_cooldowns_total")
    assert after == (before[0] + 2, before[1] + 1)


def test_streams_without_a_final_event_are_counted_and_stay_at_zero():
    name = "streams_without_terminal_event_total"
    assert f"gemini_bridge_{name} 0.0" in metrics.exposition().decode()
    record = ended()
    record.unfinished(lost=True)
    metrics.RequestMetrics({"gemini-a"})(record)
    assert counted(name) == 1


# --- the documentation -------------------------------------------------------------------------------


def described() -> dict[str, tuple[str, tuple[str, ...], str]]:
    assert state_metrics.REGISTRY is metrics.REGISTRY, "its metrics exist after the import"
    ours = {
        family.name: (family.type, getattr(metric, "_labelnames", ()), family.documentation)
        for metric in metrics.REGISTRY._collector_to_names
        for family in metric.describe()
    }
    for family in metrics._Moment(0, 0, "a").collect():
        labels = tuple(family.samples[0].labels)
        ours[family.name] = (family.type, labels, family.documentation)
    return {
        name + ("_total" if kind == "counter" else ""): (kind, *rest) for name, (kind, *rest) in ours.items()
    }


def test_the_documentation_lists_exactly_the_metrics_and_their_labels():
    rows = re.findall(
        r"^\| `(gemini_bridge_\w+)` \| (\w+) \| ([\w, ]*)\| (.*) \|$", PAGE.read_text(), re.MULTILINE
    )
    listed = {
        name: (kind, tuple(filter(None, labels.strip().split(", "))), text)
        for name, kind, labels, text in rows
    }
    assert listed == described()


def test_no_label_names_a_path_and_only_the_metrics_of_keys_name_a_key():
    labels = {name: set(labels) for name, (_, labels, _) in described().items()}
    assert not set().union(*labels.values()) & {"path", "client", "client_model"}
    named = {name for name, found in labels.items() if "key" in found}
    assert named == {"gemini_bridge_key_requests_total", "gemini_bridge_key_cost_usd_total"}


def test_the_documentation_lists_every_log_field():
    record = ended(key="k", client="c", stream=True)
    record.usage = Usage({"promptTokenCount": 1})
    record.error = record.reason = record.model = record.upstream = "x"
    record.session = record.agent = record.conversation = record.model_version = record.service_tier = "x"
    record.cache = "hit"
    record.finish_reasons = ("STOP",)
    record.assignment = ArmOfRequest("x", "x", "chosen")
    record.notes["n"] += 1
    record.first_byte()
    table = PAGE.read_text().partition("## Log")[2].partition("## Headers")[0]
    listed = set(re.findall(r"\w+", " ".join(re.findall(r"^\| ([\w, ]+) \|", table, re.MULTILINE))))
    assert listed - {"field", "time", "level", "logger", "message", "node"} == set(record._fields())


# --- access ------------------------------------------------------------------------------------------


@pytest.fixture
def make_client(tmp_path, gemini):
    def make(**environ):
        given = {
            "BRIDGE_STATE_DIR": str(tmp_path),
            "GEMINI_API_KEY": "x",
            "GOOGLE_GEMINI_BASE_URL": gemini.address,
        }
        return create_app(load(environ={**given, **environ})).test_client()

    return make


@pytest.mark.parametrize(
    ("address", "allowed", "status"),
    [
        ("127.0.0.1", None, 200),
        ("127.8.9.10", None, 200),
        ("::1", None, 200),
        ("::ffff:127.0.0.1", None, 200),
        ("10.0.0.7", None, 404),
        ("2001:db8::1", None, 404),
        ("", None, 404),
        ("not an address", None, 404),
        ("10.0.0.7", "10.0.0.0/24,192.168.1.1", 200),
        ("192.168.1.1", "10.0.0.0/24,192.168.1.1", 200),
        ("10.0.1.7", "10.0.0.0/24,192.168.1.1", 404),
        ("127.0.0.1", "10.0.0.0/24,192.168.1.1", 404),
        ("::ffff:10.0.0.7", "10.0.0.0/24", 200),
        ("127.0.0.1", "[]", 404),
    ],
)
def test_metrics_are_served_only_to_allowed_addresses(make_client, address, allowed, status):
    client = make_client(**({"BRIDGE_METRICS__ALLOWED_FROM": allowed} if allowed else {}))
    answer = client.get("/metrics", environ_base={"REMOTE_ADDR": address})
    assert answer.status_code == status
    if status == 200:
        assert answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
        assert "gemini_bridge_build_info{" in answer.text
    else:
        unknown = client.get("/nothing", environ_base={"REMOTE_ADDR": address})
        assert answer.json["error"]["code"] == unknown.json["error"]["code"] == "unknown_url"


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
def test_a_client_behind_a_proxy_is_not_treated_as_the_proxy(make_client, header):
    answer = make_client().get("/metrics", headers={header: "127.0.0.1"})
    assert answer.status_code == 404


@pytest.mark.parametrize(
    ("peer", "forwarded", "status"),
    [
        ("127.0.0.1", "10.0.0.7", 200),
        ("127.0.0.1", "198.51.100.1, 10.0.0.7", 200),
        ("127.0.0.1", "10.0.0.7, 127.0.0.1", 200),
        ("", "10.0.0.7", 404),
        ("127.0.0.1", "10.0.0.8", 404),
        ("127.0.0.1", "10.0.0.7, 198.51.100.1", 404),
        ("127.0.0.1", "127.0.0.1", 404),
        ("198.51.100.1", "10.0.0.7", 404),
        ("10.0.0.7", "10.0.0.7", 404),
    ],
)
def test_a_trusted_proxy_may_report_the_address_of_prometheus(make_client, peer, forwarded, status):
    client = make_client(BRIDGE_METRICS__ALLOWED_FROM="10.0.0.7,127.0.0.1")
    answer = client.get(
        "/metrics", headers={"X-Forwarded-For": forwarded}, environ_base={"REMOTE_ADDR": peer}
    )
    assert answer.status_code == status


def test_metrics_requests_are_neither_logged_nor_counted(make_client, caplog):
    client = make_client()
    before = counted("requests_total")
    client.get("/metrics")
    assert counted("requests_total") == before
    assert not [each for each in caplog.records if each.name == "bridge.access"]


# --- headers -----------------------------------------------------------------------------------------

HELLO = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.mark.parametrize("stream", [False, True])
def test_the_overhead_is_the_bridges_own_time_and_not_the_upstreams(make_client, gemini, stream):
    slow = [0.6, *sse(text_chunk("Hel")), *([] if stream else [0.3]), *sse(text_chunk("lo", "STOP"))]
    client = make_client()
    client.post("/v1/chat/completions", json=HELLO)  # creates objects that are created only once
    gemini.will_say(slow)
    with client.post("/v1/chat/completions", json={**HELLO, "stream": stream}) as answer:
        assert 0 < float(answer.headers["X-Bridge-Overhead-Ms"]) < 300


def test_errors_have_an_overhead_and_requests_without_a_body_have_none(make_client):
    client = make_client()
    assert float(client.post("/v1/chat/completions", data=b"{").headers["X-Bridge-Overhead-Ms"]) < 300
    assert "X-Bridge-Overhead-Ms" not in client.get("/healthz").headers


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        ("codex_cli_rs/0.166.0 (Debian; x86_64) xterm", "codex_cli_rs"),
        ("claude-cli/2.1.197 (external, cli)", "claude-cli"),
        ("OpenAI/Python 3.49.0", "OpenAI"),
        ("curl", "curl"),
        ("", None),
        (None, None),
        ("sk-" + "x" * 60, None),
        ("<script>", None),
        ("\x1b[31mred", None),
    ],
)
def test_a_client_program_is_the_first_word_of_its_user_agent(user_agent, name):
    assert client_program(user_agent) == name


# --- the shared folder -------------------------------------------------------------------------------


@pytest.fixture
def environment(monkeypatch, tmp_path):
    monkeypatch.delenv(metrics_folder.VARIABLE, raising=False)
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    monkeypatch.setattr(metrics_folder, "SHARED_MEMORY", tmp_path / "shm")
    yield monkeypatch
    os.environ.pop(metrics_folder.VARIABLE, None)


def chosen(tmp_path: Path) -> Path | None:
    metrics_folder.choose_folder(41242, tmp_path / "state")
    return metrics_folder.shared_folder()


def test_the_metrics_folder_is_systemds_or_in_memory_or_the_state_folder(environment, tmp_path):
    assert chosen(tmp_path) == tmp_path / "state" / "metrics"
    del os.environ[metrics_folder.VARIABLE]
    (tmp_path / "shm").mkdir()
    ours = tmp_path / "shm" / f"gemini-bridge-{os.getuid()}-41242"
    assert chosen(tmp_path) == ours
    assert ours.stat().st_mode & 0o777 == 0o700
    del os.environ[metrics_folder.VARIABLE]
    environment.setenv("RUNTIME_DIRECTORY", f"{tmp_path}/run:{tmp_path}/other")
    assert chosen(tmp_path) == tmp_path / "run" / "metrics"


def test_a_metrics_folder_of_another_user_is_not_used(environment, tmp_path):
    (tmp_path / "shm").mkdir()
    (tmp_path / "elsewhere").mkdir()
    trap = tmp_path / "shm" / f"gemini-bridge-{os.getuid()}-41242"
    trap.symlink_to(tmp_path / "elsewhere")
    assert chosen(tmp_path) == tmp_path / "state" / "metrics"
    del os.environ[metrics_folder.VARIABLE]
    trap.unlink()
    trap.mkdir()
    trap.chmod(0o777)
    assert chosen(tmp_path) == tmp_path / "state" / "metrics"


def test_without_a_metrics_folder_each_worker_counts_alone(environment, tmp_path, caplog):
    (tmp_path / "state").write_text("a file in the way")
    assert chosen(tmp_path) is None
    assert "one worker only" in caplog.text
    assert b"gemini_bridge_build_info" in metrics.exposition()


FULL = """
import os, resource, sys
from pathlib import Path
from bridge.observe import metrics_folder
os.environ[metrics_folder.VARIABLE] = sys.argv[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
metrics_folder.take_room()
from bridge.observe import metrics
metrics.stream_began()
counted = b"streams_in_flight 1.0" in metrics.exposition()
print(metrics_folder.shared_folder(), os.listdir(sys.argv[1]), counted)
"""


def test_a_worker_without_disk_space_counts_alone(tmp_path):
    """A size limit simulates a full disk, where writing to unreserved mapped memory raises a signal."""
    ran = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (0, "None [] True\n"), ran.stderr
    assert "no space for metrics" in ran.stderr


def test_the_reserved_space_is_the_space_in_use(tmp_path):
    code = FULL.replace("resource.setrlimit", "pass  #")
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.endswith("True\n"), ran.stderr
    made = list(tmp_path.iterdir())
    assert {each.name.rpartition("_")[0] for each in made} == set(metrics_folder.FILES)
    assert {each.stat().st_size for each in made} == {metrics_folder.ROOM}


def test_the_metrics_folder_stays_the_same_after_a_reload(environment, tmp_path):
    environment.setenv(metrics_folder.VARIABLE, str(tmp_path / "mine"))
    assert chosen(tmp_path) == tmp_path / "mine"
    (tmp_path / "mine" / "counter_1.db").touch()
    (tmp_path / "mine" / "gauge_livesum_1.db").touch()
    (tmp_path / "mine" / "letter.txt").touch()
    assert chosen(tmp_path) == tmp_path / "mine"
    metrics_folder.forget_worker(1)
    assert {each.name for each in (tmp_path / "mine").iterdir()} == {"counter_1.db", "letter.txt"}
    metrics_folder.remove()
    assert [each.name for each in (tmp_path / "mine").iterdir()] == ["letter.txt"]
