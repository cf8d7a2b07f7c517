"""The project's promises about itself: correct documents, safe lock files, and code size limits."""

from __future__ import annotations

import ast
import configparser
import importlib.util
import json
import re
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

import matrix
import pytest
import requests
import yaml
from gunicorn_bridge import ROOT, clean_environment

from bridge import __version__
from bridge.protocols import PROTOCOLS
from bridge.settings import load
from bridge.upstream import UPSTREAMS

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {".py", ".md", ".json", ".toml", ".mjs", ".html", ".js", ".sh"}
MODULES = sorted((ROOT / "bridge").rglob("*.py"))


def setup_cfg() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_the_readme_starts_with_the_two_main_commands():
    commands = re.findall(r"^make \w+", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands[:2] == ["make run", "make test"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_named_in_a_document_exists(document):
    text = document.read_text()
    named = re.findall(r"`((?:bridge|config|tests|docs|deploy|bench)/[\w./-]+)`", text)
    named += re.findall(r"\]\(([^)#:]+)\)", text)
    for name in named:
        if "vendor_api" in name or "NAME" in name or name.endswith(("name.py", "local.toml")):
            continue  # examples, and the user's own file
        assert (ROOT / name).exists() or (document.parent / name).exists(), name


def headings(document: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a document."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_heading_leads_to_one(document: Path) -> None:
    for name, anchor in re.findall(r"\]\(((?:[\w./-]+\.md)?)#([^)]+)\)", document.read_text()):
        assert anchor in headings(document.parent / name if name else document), f"{name}#{anchor}"


# --- the files around the code -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "CONTRIBUTING.md",
        "SECURITY.md",
        ".editorconfig",
        ".github/pull_request_template.md",
        ".github/ISSUE_TEMPLATE/bug.md",
        ".github/ISSUE_TEMPLATE/client.md",
        ".github/ISSUE_TEMPLATE/feature.md",
    ],
)
def test_a_contributor_finds(name):
    assert (ROOT / name).read_text().strip()


def test_the_licence_is_the_one_that_the_package_names():
    metadata = setup_cfg()["metadata"]
    assert (metadata["license"], metadata["license_files"]) == ("Apache-2.0", "LICENSE")
    text = (ROOT / "LICENSE").read_text()
    assert re.match(r"\s+Apache License\s+Version 2\.0, January 2004\s", text)
    assert text.count("\n") == 201


def test_an_issue_form_has_a_name_and_says_what_it_is_for():
    for form in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"):
        _, head, body = form.read_text().split("---\n", 2)
        assert {"name", "about", "labels"} == yaml.safe_load(head).keys(), form
        assert body.strip()


def test_pre_commit_runs_what_make_lint_types_runs():
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    hooks = repository["hooks"]
    assert repository["repo"] == "local", "a hook of another repository has to be downloaded"
    assert {(hook["language"], hook["pass_filenames"]) for hook in hooks} == {("system", False)}
    assert recipe(*[word for hook in hooks for word in hook["entry"].split()[1:]]) == recipe("lint", "types")
    assert {hook["entry"].split()[0] for hook in hooks} == {"make"}
    assert "make lint types\n" in (ROOT / ".ci" / "run").read_text()


def recipe(*targets):
    """The commands that make would run."""
    told = subprocess.run(
        ["make", "--dry-run", *targets], cwd=ROOT, capture_output=True, text=True, env=clean_environment()
    )
    assert told.returncode == 0, told.stderr
    return [line for line in told.stdout.splitlines() if "ruff" in line or "mypy" in line]


def test_the_index_names_every_document_once():
    index = (ROOT / "docs" / "README.md").read_text()
    named = re.findall(r"^\* \[([^]]+)\]\((?:\.\./)?\1\) – \S", index, re.MULTILINE)
    documents = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert len(named) == len(set(named))
    assert set(named) == documents - {"README.md"} | {"CONTRIBUTING.md", "openapi.json"}


# --- what the documents say --------------------------------------------------------------------------


#: Tests that are about retired models, and must name them.
ABOUT_RETIREMENT = {
    "test_models.py",
    "test_model_lifecycle.py",
    "google_models.py",
    "test_signatures.py",
    "test_prices.py",
    "test_project.py",
}


def test_documents_tests_and_client_settings_name_no_retired_models():
    """Only one table lists the retired models."""
    lifecycle = load(environ={}).models.lifecycle
    folders = [ROOT / name for name in ("docs", "tests", "bench", "bridge", "deploy")]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in TEXTS]
    for path in [ROOT / "README.md", *files]:
        if path.name in ABOUT_RETIREMENT or {"node_modules", "installed", "doctor"} & set(path.parts):
            continue
        named = set(re.findall(r"gemini-[0-9][a-z0-9.-]*[a-z0-9]", path.read_text()))
        assert [name for name in sorted(named) if lifecycle.row_of(name)] == [], path


@pytest.mark.parametrize("document", ["RELIABILITY.md", "SECURITY.md"])
def test_every_promise_links_to_an_existing_test(document):
    text = (ROOT / "docs" / document).read_text()
    named = dict(re.findall(r"^\[([\w-]+)\]: \.\./([\w/.]+#\w+)$", text, re.MULTILINE))
    assert set(re.findall(r"\]\[([\w-]+)\]", text)) == set(named)
    for place in named.values():
        path, _, test = place.partition("#")
        assert f"def {test}(" in (ROOT / path).read_text(), place


def test_the_readmes_curl_streams_an_answer(demo_bridge):
    """The command is parsed and not run, as a machine may have no curl."""
    block = re.search(r"```sh\n(curl .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    program, _, address, _, header, _, data = shlex.split(block[1].replace("\\\n", " "))
    url = address.replace("http://127.0.0.1:41242", demo_bridge.address)
    answer = requests.post(url, data=data, headers=dict([header.split(": ")]), timeout=60)
    assert program == "curl"
    assert "chat.completion.chunk" in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")


def test_settings_shown_in_documents_are_valid(tmp_path):
    for document in DOCUMENTS:
        for block in re.findall(r"```toml\n(\[upstream\].*?)```", document.read_text(), re.DOTALL):
            for name in ("default.toml", "models.toml"):
                (tmp_path / name).write_bytes((ROOT / "config" / name).read_bytes())
            (tmp_path / "local.toml").write_text(block)
            assert load(tmp_path, {}).transport_in_force in UPSTREAMS


def test_the_readmes_python_runs(demo_bridge):
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    code = block[1].replace("http://127.0.0.1:41242", demo_bridge.address)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "demo model" in ran.stdout


def test_every_demo_model_named_in_the_readme_exists(demo_bridge):
    from bridge.upstream.demo.faults import FAULTS

    for name in re.findall(r"`demo-(\w+)`", (ROOT / "README.md").read_text()):
        assert name in FAULTS


def test_bare_make_prints_a_menu():
    menu = subprocess.run(
        ["make"], cwd=ROOT, capture_output=True, text=True, check=True, env=clean_environment()
    )
    for target in ("run", "test", "lint", "types", "bench"):
        assert f"make {target} " in menu.stdout


def test_the_diagrams_match_the_event_tables():
    place = ROOT / "docs" / "states" / "generate.py"
    spec = importlib.util.spec_from_file_location("generate_states", place)
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    for protocol in PROTOCOLS:
        assert generate.page(protocol).read_text() == generate.diagram(protocol), "run: make diagrams"
    assert generate.CALLS.read_text() == generate.calls_diagram(), "run: make diagrams"


def test_the_changelog_has_an_entry_for_this_version():
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_documentation_explains_exactly_the_declared_dependencies():
    options = setup_cfg()
    wanted = options["options"]["install_requires"] + "".join(options["options.extras_require"].values())
    declared = set(re.findall(r"^([\w-]+)", wanted, re.MULTILINE))
    explained = set(
        re.findall(r"^\| ([\w-]+) \| \S", (ROOT / "docs/dependencies.md").read_text(), re.MULTILINE)
    )
    assert explained - {"package"} == declared


#: The distribution that brings an import, where the name of the import does not say it.
DISTRIBUTIONS = {
    "google.ai": "google-ai-generativelanguage",
    "google.api_core": "google-api-core",
    "google.auth": "google-auth",
    "google.generativeai": "google-generativeai",
    "google.oauth2": "google-auth",
    "google.protobuf": "protobuf",
    "opentelemetry.context": "opentelemetry-api",
    "opentelemetry.exporter": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry.trace": "opentelemetry-api",
    "opentelemetry.util": "opentelemetry-api",
    "prometheus_client": "prometheus-client",
    "psycopg_pool": "psycopg",
    "re2": "google-re2",
}


def imports_of_others() -> set[str]:
    """The modules of other projects that the bridge imports, wherever in its code."""
    nodes = [node for path in MODULES for node in ast.walk(ast.parse(path.read_text()))]
    found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            package = str(node.module)
            split = package in ("google", "opentelemetry")  # several projects share these packages
            found |= {f"{package}.{alias.name}" for alias in node.names} if split else {package}
    return {name for name in found if name.split(".")[0] not in {*sys.stdlib_module_names, "bridge"}}


def distribution_of(module: str) -> str:
    package, _, rest = module.partition(".")
    return DISTRIBUTIONS.get(f"{package}.{rest.split('.')[0]}") or DISTRIBUTIONS.get(package) or package


def test_every_import_of_the_bridge_is_declared():
    options = setup_cfg()
    extras = [options["options.extras_require"][name] for name in ("otel", "postgres", "vertex", "sdk")]
    wanted = "\n".join([options["options"]["install_requires"], *extras])
    declared = set(re.findall(r"^([\w-]+)", wanted, re.MULTILINE))
    assert {distribution_of(name) for name in imports_of_others()} == declared


def test_packages_whose_private_methods_are_used_have_an_upper_bound():
    wanted = setup_cfg()["options"]["install_requires"]
    assert re.search(r"^gunicorn>=[\d.]+,<\d+$", wanted, re.MULTILINE)
    assert re.search(r"^urllib3>=[\d.]+,<\d+$", wanted, re.MULTILINE)


@pytest.mark.parametrize(
    "lock",
    [
        "requirements.lock",
        "requirements-dev.lock",
        "requirements-fuzz.lock",
        "tests/real_servers/requirements.lock",
    ],
)
def test_a_lock_pins_every_package_by_hash_and_names_no_registry(lock):
    text = (ROOT / lock).read_text()
    assert "://" not in text
    assert not re.search(r"^--?(i|f|index|extra|find|trusted)", text, re.MULTILINE)
    for block in re.split(r"\n(?=\S)", text.strip()):
        assert re.match(r"[\w.-]+(\[[\w, ]+\])?==\S+", block), block
        assert "--hash=sha256:" in block, block


def test_the_dev_lock_holds_all_of_the_run_lock():
    pins = [
        set(re.findall(r"^([\w.-]+==\S+)", (ROOT / lock).read_text(), re.MULTILINE))
        for lock in ("requirements.lock", "requirements-dev.lock")
    ]
    assert pins[0] <= pins[1]


def test_functions_and_modules_stay_below_the_size_limits():
    sizes = []
    for path in MODULES:
        text = path.read_text()
        assert text.count("\n") <= 400, path
        nodes = ast.walk(ast.parse(text))
        sizes += [node.end_lineno - node.lineno + 1 for node in nodes if isinstance(node, ast.FunctionDef)]
    sizes.sort()
    assert statistics.median(sizes) <= 8
    assert sizes[int(len(sizes) * 0.9)] <= 30


def test_no_module_has_a_meaningless_name():
    assert not {path.stem for path in MODULES} & {"utils", "helpers", "common", "misc"}


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.stem != "__init__"], ids=lambda path: path.stem
)
def test_every_module_has_a_docstring(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_the_matrix_of_clients_names_the_pinned_versions():
    expected = [[agent.title, matrix.pinned_versions(agent), agent.protocol] for agent in matrix.AGENTS]
    rows = matrix.documented()
    assert [row[:3] for row in rows] == expected, "run: make client-matrix"
    assert all(len(row) == 3 + len(matrix.CAPABILITIES) for row in rows)
    assert not [row for row in rows if "**no**" in row or "not run" in row]


def test_the_lock_of_the_clients_names_no_registry():
    lock = json.loads((ROOT / "tests" / "real_clients" / "package-lock.json").read_text())
    assert not [name for name, package in lock["packages"].items() if "resolved" in package]
    assert all("integrity" in package for name, package in lock["packages"].items() if name)


def test_the_config_folder_holds_no_python_code():
    assert not list(Path(ROOT / "config").glob("*.py"))
