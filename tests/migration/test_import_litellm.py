"""`gemini-bridge import litellm`: what it writes, what it lists, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from command_line import attempt

from bridge.settings import load

SECRET = "sk-0123456789abcdefSECRET"
KEYS = {"GEMINI_API_KEY_A": "AIzaA", "GEMINI_API_KEY_B": "AIzaB", "OPENROUTER_API_KEY": "sk-or"}

#: A team on two Gemini keys, with names of other vendors.
TEAM = """
model_list:
  - model_name: claude-sonnet-4-5
    litellm_params:
      model: gemini/gemini-pro-latest
      api_key: os.environ/GEMINI_API_KEY_A
      rpm: 60
  - model_name: claude-sonnet-4-5
    litellm_params:
      model: gemini/gemini-pro-latest
      api_key: os.environ/GEMINI_API_KEY_B
      weight: 3
  - model_name: claude-haiku-4-5
    litellm_params:
      model: gemini/gemini-flash-latest
      api_key: os.environ/GEMINI_API_KEY_A
  - model_name: text-embedding-3-small
    litellm_params: {model: gemini/gemini-embedding-2, api_key: os.environ/GEMINI_API_KEY_A}
    model_info: {mode: embedding}
router_settings:
  model_group_alias: {gpt-5: claude-sonnet-4-5}
  num_retries: 2
  routing_strategy: least-busy
  redis_host: redis.internal
litellm_settings:
  drop_params: true
  request_timeout: 600
  max_budget: 50
  budget_duration: 1d
  success_callback: [langfuse]
general_settings:
  master_key: sk-0123456789abcdefSECRET
  database_url: os.environ/DATABASE_URL
"""

#: Servers of one's own, and vendors that the bridge does not have.
MIXED = """
x-common: &common
  api_base: http://gpu.internal:8000/v1
  api_key: none
model_list:
  - model_name: qwen
    litellm_params:
      <<: *common
      model: hosted_vllm/qwen3-coder
  - model_name: llama
    litellm_params: {model: ollama_chat/llama3:8b, api_base: http://gpu.internal:11434}
  - model_name: router
    litellm_params: {model: openrouter/deepseek/deepseek-chat}
  - model_name: gpt-5
    litellm_params: {model: azure/gpt-5, api_base: https://x.openai.azure.com/, api_key: os.environ/AZ, \
api_version: 2025-01-01}
  - model_name: opus
    litellm_params: {model: anthropic/claude-opus-4-8, api_key: os.environ/ANTHROPIC_API_KEY}
  - model_name: gemini/*
    litellm_params: {model: gemini/*}
  - model_name: picture
    litellm_params: {model: openai/gpt-image-1}
    model_info: {mode: image_generation}
  - model_name: qwen
    litellm_params: {model: openrouter/qwen/qwen3}
"""


@pytest.fixture
def config(tmp_path: Path):
    def written(text: str) -> str:
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return str(path)

    return written


def imported(config: str, folder: Path) -> tuple[dict[str, dict], str]:
    ran = attempt("import", "litellm", config, "--to", str(folder))
    assert ran.returncode == 0, ran.stderr
    names = ("models.toml", "upstreams.toml", "local.toml")
    return {name: tomllib.loads((folder / name).read_text()) for name in names}, ran.stderr


def check(folder: Path, **keys: str) -> None:
    ran = attempt("check", BRIDGE_CONFIG_DIR=str(folder), BRIDGE_STATE_DIR=str(folder / "state"), **keys)
    assert (ran.returncode, ran.stdout.splitlines()[-1:]) == (0, ["ok"]), ran.stdout + ran.stderr


def test_deployments_become_upstreams_and_aliases(config, tmp_path):
    files, _ = imported(config(TEAM), tmp_path / "new")
    first, second = files["upstreams.toml"]["upstream"]
    assert first == {
        "name": "gemini",
        "kind": "gemini",
        "api_key": "env:GEMINI_API_KEY_A",
        "models": ["gemini-pro-latest"],
    }
    assert (second["name"], second["weight"]) == ("gemini-2", 3)
    large, small = files["models.toml"]["alias"]
    assert large == {"match": ["claude-sonnet-4-5", "gpt-5"], "model": "gemini-pro-latest"}
    assert small == {"match": ["claude-haiku-4-5"], "model": "gemini-flash-latest", "upstream": "gemini"}
    assert files["models.toml"]["embedding"][0]["match"] == ["text-embedding-3-small"]
    assert files["local.toml"] == {
        "upstream": {"answer_timeout": 600.0, "attempts": 3},
        "limits": {"cost_per_day": 50.0},
    }


@pytest.mark.parametrize(
    ("text", "keys"), [(TEAM, KEYS), (MIXED, {**KEYS, "AZ": "key"})], ids=["team", "mixed"]
)
def test_the_written_folder_passes_the_check_and_routes_as_written(config, tmp_path, text, keys):
    imported(config(text), tmp_path / "new")
    check(tmp_path / "new", **keys)


def test_a_name_goes_to_the_model_of_its_deployment(config, tmp_path):
    imported(config(MIXED), tmp_path / "new")
    models = load(tmp_path / "new", {**KEYS, "AZ": "key"}).models
    targets = {name: str(models.meaning(name).models[0]) for name in ("qwen", "llama", "router", "gpt-5")}
    assert targets == {
        "qwen": "vllm:qwen3-coder",
        "llama": "ollama:llama3:8b",
        "router": "openrouter:deepseek/deepseek-chat",
        "gpt-5": "azure:gpt-5",
    }
    assert str(models.meaning("a name that nobody knows").models[0]) == "vllm:qwen3-coder"


def test_everything_else_is_listed_by_name_with_its_line_and_reason(config, tmp_path):
    _, listed = imported(config(TEAM), tmp_path / "new")
    lines = TEAM.splitlines()
    for name, word in (
        ("model_list[0].litellm_params.rpm", "--rpm"),
        ("router_settings.routing_strategy", "weight"),
        ("router_settings.redis_host", "Redis"),
        ("litellm_settings.drop_params", "x-bridge-losses"),
        ("litellm_settings.success_callback", "OBSERVABILITY"),
        ("general_settings.master_key", "key add"),
        ("general_settings.database_url", "BRIDGE_STATE_URL"),
    ):
        (line,) = [each for each in listed.splitlines() if f" {name}: " in each]
        assert word in line
        number = int(line.split()[1].rstrip(":"))
        assert name.rpartition(".")[2] in lines[number - 1]
    assert "not carried, 7 in all" in listed
    assert "SECRET" not in listed


def test_deployments_without_a_counterpart_are_listed(config, tmp_path):
    _, listed = imported(config(MIXED), tmp_path / "new")
    for name, why in (
        ("model_list[4] ('opus')", "no upstream for this provider"),
        ("model_list[5] ('gemini/*')", "pattern"),
        ("model_list[6] ('picture')", "image_generation"),
        ("model_list[7] ('qwen')", "one model"),
        ("model_list[3].litellm_params.api_version", "api-version"),
        ("x-common", "no such setting"),
    ):
        assert any(f" {name}: " in line and why in line for line in listed.splitlines()), name


@pytest.mark.parametrize(
    ("parameters", "line"),
    [
        (f"api_key: {SECRET}", 5),
        (f"api_base: https://user:{SECRET}@proxy.internal", 5),
        (f'vertex_credentials: \'{{"private_key": "{SECRET}"}}\'', 5),
    ],
)
def test_a_literal_secret_is_refused_with_its_line_and_never_printed(config, tmp_path, parameters, line):
    text = f"model_list:\n  - model_name: a\n    litellm_params:\n      model: gemini/a\n      {parameters}\n"
    ran = attempt("import", "litellm", config(text), "--to", str(tmp_path / "new"))
    assert ran.returncode == 2
    assert f"line {line}: a secret" in ran.stderr
    assert SECRET not in ran.stdout + ran.stderr
    assert not (tmp_path / "new").exists()


def test_vertex_ai_keeps_its_project_and_credentials(config, tmp_path):
    account = tmp_path / "account.json"
    account.write_text("{}")
    text = f"""
model_list:
  - model_name: pro
    litellm_params:
      model: vertex_ai/gemini-pro-latest
      vertex_project: our-project
      vertex_location: europe-west4
      vertex_credentials: {account}
  - model_name: claude
    litellm_params: {{model: vertex_ai/claude-opus-4-8}}
"""
    files, listed = imported(config(text), tmp_path / "new")
    assert files["upstreams.toml"]["upstream"] == [
        {
            "name": "vertex",
            "kind": "vertex",
            "project": "our-project",
            "location": "europe-west4",
            "credentials": str(account),
        }
    ]
    assert "model_list[1] ('claude')" in listed


def test_without_a_folder_the_files_are_printed(config):
    ran = attempt("import", "litellm", config(TEAM))
    assert ran.returncode == 0
    for name in ("models.toml", "upstreams.toml", "local.toml"):
        assert f"# === {name}\n" in ran.stdout
    assert "env:GEMINI_API_KEY_A" in ran.stdout


def test_no_file_is_overwritten(config, tmp_path):
    (tmp_path / "models.toml").write_text("mine")
    ran = attempt("import", "litellm", config(TEAM), "--to", str(tmp_path))
    assert ran.returncode == 2
    assert "already has models.toml" in ran.stderr
    assert (tmp_path / "models.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no model_list"),
        ("- a", "no model_list"),
        ("model_list: []", "nothing to write"),
        ("model_list:\n  - [1", "not valid YAML at line"),
        ("model_list: &a [*a]", "repeats itself"),
        ("model_list: [!!python/object:os.system {}]", "nothing to write"),
        (
            "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
            "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
            "e: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]",
            "too long",
        ),
    ],
)
def test_a_file_of_another_form_is_an_error_without_a_traceback(config, text, message):
    ran = attempt("import", "litellm", config(text))
    assert (ran.returncode, message in ran.stderr) == (2, True), ran.stderr
    assert "Traceback" not in ran.stderr


def test_only_this_command_imports_yaml():
    code = "import sys, bridge.cli, bridge.cli.import_config; print('yaml' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout.lower()) is False
