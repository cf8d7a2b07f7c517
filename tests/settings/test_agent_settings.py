"""The files of config/agents/: what they may say, and the message for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.agents.cancellation import Cancellation
from bridge.agents.directory import AgentDirectory
from bridge.settings.agents import load_agents
from bridge.settings.guards import GuardSettings
from bridge.settings.value import SettingsError

AGENT = '[[agent]]\nname = "helper"\nmodel = "m"\ninstruction = "Help."\n'
WORKSPACE = '[[workspace]]\nname = "docs"\nfolder = "docs"\n'
HTTP = '[[http]]\nname = "api"\ndescription = "d"\nurl = "https://api.example/{id}?x=1"\n'
PARAMETERS = 'parameters = { type = "object", properties = { id = { type = "string" } } }\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agents").mkdir()
    (tmp_path / "docs").mkdir()
    return tmp_path


def load(folder: Path, *files: str, **environ: str) -> AgentDirectory:
    for number, text in enumerate(files):
        (folder / "agents" / f"{number}.toml").write_text(text)
    settings = load_agents(folder / "agents", environ, folder)
    return AgentDirectory(settings, GuardSettings())


def test_all_files_are_one_configuration(folder: Path) -> None:
    directory = load(folder, AGENT + 'tools = ["docs__*", "api"]\n', WORKSPACE + HTTP + PARAMETERS)
    names = [tool.description.function_name for tool in directory["helper"].registry(Cancellation())]
    assert names == ["docs__read_file", "docs__list_directory", "docs__glob", "docs__grep", "api"]


def test_an_agent_has_only_the_tools_that_it_names(folder: Path) -> None:
    directory = load(folder, AGENT + 'tools = ["docs__g*"]\n', WORKSPACE + HTTP + PARAMETERS)
    names = [tool.description.function_name for tool in directory["helper"].registry(Cancellation())]
    assert names == ["docs__glob", "docs__grep"]


def test_a_header_takes_its_secret_from_elsewhere(folder: Path) -> None:
    (folder / "weather").write_text("from systemd\n")
    header = (
        'headers = { Authorization = "Bearer env:TOKEN", X-Api-Key = "credential:weather", Accept = "a/b" }\n'
    )
    (folder / "agents" / "a.toml").write_text(HTTP + PARAMETERS + header)
    environ = {"TOKEN": "t0", "CREDENTIALS_DIRECTORY": str(folder)}
    (row,) = load_agents(folder / "agents", environ, folder).http_tools
    assert row.headers == {"Authorization": "Bearer t0", "X-Api-Key": "from systemd", "Accept": "a/b"}
    assert "t0" not in repr(row)


def test_only_tools_that_read_are_unattended_unless_the_file_says_so(folder: Path) -> None:
    rows = HTTP + PARAMETERS, HTTP.replace('"api"', '"post"') + PARAMETERS + 'method = "POST"\n'
    more = HTTP.replace('"api"', '"safe"') + PARAMETERS + 'method = "POST"\nunattended = true\n'
    (folder / "agents" / "a.toml").write_text("".join((*rows, more)))
    tools = load_agents(folder / "agents", {}, folder).http_tools
    assert [(tool.read_only, tool.unattended) for tool in tools] == [
        (True, True),
        (False, False),
        (False, True),
    ]


MISTAKES = [
    ("[agent]\n", "must be a list of tables"),
    ("[[agents]]\n", "agents is unknown; did you mean agent?"),
    ('[[agent]]\nname = "a"\n', r"\[\[agent\]\] 1: model is missing"),
    (AGENT.replace('"helper"', '"He lper"'), "name must be a text of at most 32"),
    (AGENT + "rounds = 0\n", "rounds must be"),
    (AGENT + 'shell = "bash"\n', "shell is unknown"),
    (AGENT + AGENT, "two of the kind agent named helper"),
    (AGENT + 'agents = ["helpr"]\n', "there is no agent 'helpr'; did you mean helper?"),
    (AGENT + 'tools = ["docs__*"]\n', "'docs__\\*' names no tool"),
    (AGENT + 'query = "{{question}}"\n', "there is no variable 'question'"),
    (AGENT + 'output = { type = "objekt" }\n', "output: schema.type: 'objekt' is not a type"),
    (WORKSPACE + WORKSPACE, "two of the kind tool named docs"),
    (WORKSPACE.replace('"docs"\nf', '"api"\nf') + HTTP + PARAMETERS, "two of the kind tool named api"),
    (WORKSPACE.replace('folder = "docs"', 'folder = "missing"'), "is not a folder"),
    (HTTP, r"\{id\} is not among the properties of parameters"),
    (HTTP + PARAMETERS.replace('"string"', '"text"'), "parameters.* 'text' is not a type"),
    (HTTP + PARAMETERS + 'method = "EXEC"\n', "method must be"),
    (HTTP + PARAMETERS + 'headers = { Authorization = "Bearer abc123" }\n', "must not contain a secret"),
    (HTTP + PARAMETERS + 'headers = { X-Key = "env:MISSING" }\n', "MISSING is not set"),
    (HTTP + PARAMETERS + 'headers = { X-Key = "a\\nb" }\n', "of one line"),
    ('[[rule]]\ntool = "api"\ndecision = "maybe"\n', "decision must be"),
    ('[[rule]]\ntool = "api"\ndecision = "deny"\nargs_pattern = "("\n', "args_pattern is not a regular"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_stops_the_start_with_its_place(folder: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as error:
        load(folder, text)
    assert "abc123" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://{id}.example/",
        "https://api.example{id}/",
        "https://api.example",
        "https://user@api.example/{id}",
        "https://user:pass@api.example/{id}",
        "https://api.example:{id}/",
        "ftp://api.example/{id}",
        "file:///etc/{id}",
        "https:///{id}",
        "{id}",
        "https://api.example/{id}#x",
        "https://api.example/a b/{id}",
        "https://api.exämple/{id}",
        "https://api.example\\evil/{id}",
    ],
)
def test_an_address_whose_server_is_not_fixed_is_refused(folder: Path, url: str) -> None:
    row = HTTP.replace("https://api.example/{id}?x=1", url.replace("\\", "\\\\")) + PARAMETERS
    with pytest.raises(SettingsError, match=r"url must be http:// or https://"):
        load(folder, row)
