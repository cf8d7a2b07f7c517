"""The tables [[mcp_server]]."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge.settings import SettingsError
from bridge.settings.mcp_servers import McpServerRow, read_mcp_server

ENVIRON = {"WIKI_TOKEN": "Bearer sesame-opens", "LINES": "a\nb", "EMPTY": " "}
GOOD: dict[str, Any] = {"name": "wiki", "url": "https://wiki.example/mcp"}


def read(**fields: Any) -> McpServerRow:
    return read_mcp_server("agents/a.toml: [[mcp_server]] 1", {**GOOD, **fields}, ENVIRON, ("intra.example",))


def test_all_values_are_read() -> None:
    row = read(
        headers={"Authorization": "env:WIKI_TOKEN"},
        allowed_tools=["search", "read"],
        read_only=["read"],
        trust_annotations=True,
        time_limit=5,
    )
    assert row.headers == {"Authorization": "Bearer sesame-opens"}
    assert (row.allowed_tools, row.read_only, row.trust_annotations) == (("search", "read"), ("read",), True)
    assert row.time_limit == 5
    assert row.secrets == ("sesame-opens",)
    assert "sesame" not in repr(row)


def test_a_credential_of_systemd_is_read(tmp_path: Path) -> None:
    (tmp_path / "wiki").write_text("Bearer from-systemd\n")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    fields = {**GOOD, "headers": {"Authorization": "credential:wiki"}}
    assert read_mcp_server("x", fields, environ, ()).headers == {"Authorization": "Bearer from-systemd"}


@pytest.mark.parametrize(
    "url",
    ["http://localhost:8000/mcp", "http://127.0.0.1/mcp", "http://[::1]/mcp", "http://intra.example/mcp"],
)
def test_plain_http_is_for_this_machine_and_for_allowed_hosts(url: str) -> None:
    assert read(url=url).url == url


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "Wiki"}, "name must be"),
        ({"name": "a__b"}, "must not contain __"),
        ({"url": "http://wiki.example/mcp"}, "plain http is for this machine only"),
        ({"url": "stdio:///bin/sh"}, "url must be"),
        ({"url": "https://user:word@wiki.example/"}, "url must be"),
        ({"command": "sh"}, "command is unknown"),
        ({"headers": {"Authorization": "Bearer sesame-opens"}}, "must not contain a secret"),
        ({"headers": {"Authorization": "env:ABSENT"}}, "the environment variable ABSENT is not set"),
        ({"headers": {"Authorization": "env:EMPTY"}}, "the environment variable EMPTY is not set"),
        ({"headers": {"X-Lines": "env:LINES"}}, "must have only ASCII characters of one line"),
        ({"headers": {"Host": "env:WIKI_TOKEN"}}, "a header that the bridge sets itself"),
        ({"headers": {"Mcp-Method": "env:WIKI_TOKEN"}}, "a header that the bridge sets itself"),
        ({"headers": {"a b": "env:WIKI_TOKEN"}}, "is not the name of an HTTP header"),
        ({"time_limit": 0}, "time_limit must be"),
        ({"headers": "x"}, "headers must be a table of texts"),
    ],
)
def test_wrong_values_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message) as refused:
        read(**fields)
    assert str(refused.value).startswith("agents/a.toml: [[mcp_server]] 1")
    assert "sesame" not in str(refused.value)


@pytest.mark.parametrize("missing", ["name", "url"])
def test_name_and_url_are_needed(missing: str) -> None:
    fields = {name: value for name, value in GOOD.items() if name != missing}
    with pytest.raises(SettingsError, match=f"{missing} is missing"):
        read_mcp_server("x", fields, {}, ())
