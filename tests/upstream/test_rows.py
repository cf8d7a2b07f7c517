"""An upstream from a row of upstreams.toml: its proxy, its time limits, and what its kind cannot do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scripted_gemini import Reply, ScriptedGemini
from upstream_rigs import CONFIG, read

from bridge.errors import UpstreamTimeout
from bridge.gemini.types import USER, Content, GenerateRequest, Part
from bridge.settings import SettingsError, UpstreamRow, load
from bridge.upstream import make_upstream

REQUEST = GenerateRequest("gemini-x", (Content(USER, (Part("Hi"),)),))


@pytest.fixture
def api() -> Iterator[ScriptedGemini]:
    scripted = ScriptedGemini()
    yield scripted
    scripted.close()


def row(**values: object) -> UpstreamRow:
    given: dict[str, object] = {"name": "one", "kind": "gemini", "api_keys": ("k" * 20,), **values}
    return UpstreamRow(**given)  # type: ignore[arg-type]


def test_the_proxy_of_a_row_is_used(api: ScriptedGemini) -> None:
    proxied = row(base_url="http://gemini.invalid", proxy=api.address)
    assert read(make_upstream(load(CONFIG, {}), row=proxied), REQUEST)
    (asked,) = api.asked
    assert asked.path.startswith("http://gemini.invalid/v1beta/models/gemini-x:")


def test_the_time_limits_of_a_row_apply(api: ScriptedGemini) -> None:
    api.will_say(Reply([5.0]))
    limited = row(base_url=api.address, first_byte_timeout=0.2, read_timeout=0.2)
    with pytest.raises(UpstreamTimeout):
        read(make_upstream(load(CONFIG, {}), row=limited), REQUEST)


def test_googles_old_package_refuses_a_proxy_of_its_own() -> None:
    settings = load(CONFIG, {"BRIDGE_UPSTREAM__STORE": "true"})
    with pytest.raises(SettingsError, match="remove proxy and ca"):
        make_upstream(settings, row=row(kind="sdk", proxy="http://p"))
