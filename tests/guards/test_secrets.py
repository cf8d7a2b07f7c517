"""Keys of well-known kinds are redact before Gemini, and other text is unchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.access.key_format import new_secret
from bridge.gemini.types import (
    MODEL,
    USER,
    Content,
    FunctionCall,
    FunctionResponse,
    GenerateRequest,
    InlineData,
    OtherData,
    Part,
)
from bridge.guards.guard_runner import ActiveGuards, GuardRunner
from bridge.guards.secrets import MARK, SecretRedaction, redact
from bridge.settings import PROJECT
from bridge.settings.guards import GuardSettings, load_guards

ANY_SPEED = settings(deadline=None)
HEX = "0123456789abcdef"


def block(kind: str, body: str = "MIIEpAIBAAKCAQEA\nxyz+/==") -> str:
    """Build the key here, so that secret scanners do not report this file."""
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----"


KEYS: dict[str, str] = {
    "Google": "AIza" + "Sy0-_" * 7,
    "AWS": "AKIA" + "ABCD2345" * 2,
    "AWS, for a session": "ASIA" + "ABCD2345" * 2,
    "GitHub, personal": "ghp_" + "aB3" * 12,
    "GitHub, OAuth": "gho_" + "aB3" * 12,
    "GitHub, user": "ghu_" + "aB3" * 12,
    "GitHub, server": "ghs_" + "aB3" * 12,
    "GitHub, refresh": "ghr_" + "aB3" * 12,
    "GitHub, fine-grained": "github_pat_" + "11ABCDE_0" * 5,
    "GitLab": "glpat-" + "aB3-_" * 4,
    "Slack, bot": "xoxb-" + "123456789012-abcdef",
    "Slack, user": "xoxp-" + "123456789012-abcdef",
    "OpenAI": "sk-" + "aB3" * 16,
    "OpenAI, of a project": "sk-proj-" + "aB3_-" * 10,
    "Anthropic": "sk-ant-" + "api03-" + "aB3_-" * 10,
    "this bridge": new_secret(),
    "a private key": block("PRIVATE KEY"),
    "a private RSA key": block("RSA PRIVATE KEY"),
    "a private EC key": block("EC PRIVATE KEY"),
    "a private OpenSSH key": block("OPENSSH PRIVATE KEY", "b3BlbnNzaC1rZXk\n" * 50),
    "a private PGP key": block("PGP PRIVATE KEY BLOCK"),
    "a private key on one line": block("PRIVATE KEY").replace("\n", "\\n"),
}

#: Texts that resemble keys but are none.
ORDINARY: dict[str, str] = {
    "plain words": "The key to success is to ask for a token of trust.",
    "nothing": "",
    "a word with sk- in it": "the task-runner-of-the-whole-department-is-here",
    "a class name that begins with sk-": "sk-toggleable__label-arrow sk-estimator-doc-link-label",
    "the beginning of a key": "AIza sk- ghp_ xoxb- AKIA glpat- github_pat_",
    "a short key": "sk-1234 ghp_abc AKIA123 AIzaSy",
    "a commit": HEX * 2 + "01234567",
    "an id": "550e8400-e29b-41d4-a716-446655440000",
    "capitals": "AKIAMOTO IS NOT A KEY, NOR IS ASIAN",
    "a word that goes on": "xAKIA" + "ABCD2345" * 2,
    "a public key": block("PUBLIC KEY"),
    "a certificate": block("CERTIFICATE"),
    "a question about keys": "What does -----BEGIN PRIVATE KEY----- mean?",
    "base64": "aGVsbG8gd29ybGQ=" * 20,
    "a path": "/home/sk/ghp/src/github_patches/gbk_tools.py",
    "other languages": "鍵は安全です — ключ в безопасности",
}

EVERY_KEY = pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
ODD = st.text(max_size=20)


def guarded(request: GenerateRequest) -> GenerateRequest:
    return SecretRedaction(GuardSettings()).on_request(request)


def request_with(*parts: Part, system: Content | None = None) -> GenerateRequest:
    return GenerateRequest("gemini-test", (Content(USER, parts),), system)


@EVERY_KEY
def test_each_kind_of_key_is_redacted(key):
    assert redact(f"before {key} behind") == f"before {MARK} behind"
    assert redact(key) == MARK
    assert redact(f'KEY="{key}"\nNEXT={key}\n') == f'KEY="{MARK}"\nNEXT={MARK}\n'


@EVERY_KEY
def test_keys_are_redacted_in_every_upstream_field(key):
    nested = {"a": [{"b": f"is {key}."}], "n": 1}
    request = request_with(
        Part(f"My key is {key}."),
        Part(FunctionCall("f", nested, "c1")),
        Part(FunctionResponse("f", nested, "c1")),
        system=Content(USER, (Part(f"Use {key}."),)),
    )
    left = guarded(request)
    assert key not in repr(left)
    clean = {"a": [{"b": f"is {MARK}."}], "n": 1}
    assert left.system.parts[0].data == f"Use {MARK}."
    assert [part.data for part in left.contents[0].parts] == [
        f"My key is {MARK}.",
        FunctionCall("f", clean, "c1"),
        FunctionResponse("f", clean, "c1"),
    ]


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY)
def test_text_without_keys_is_unchanged(text):
    request = request_with(
        Part(text),
        Part(FunctionCall("f", {"a": [text]}, "c1")),
        Part(FunctionResponse("f", {"a": text}, "c1")),
        system=Content(USER, (Part(text),)),
    )
    assert redact(text) == text
    assert guarded(request) is request


def test_only_the_keys_in_a_text_are_redacted():
    words = " ".join(ORDINARY.values())
    assert redact(" ".join([words, *KEYS.values(), words])) == " ".join([words, *[MARK] * len(KEYS), words])


def test_other_fields_of_a_redacted_part_are_kept():
    key = KEYS["Google"]
    part = Part(f"a {key}", thought=True, signature="signed", extra={"future": 1})
    call = Part(FunctionCall("f", {"a": key}, "c1", {"more": 2}), signature="other", extra={"future": 3})
    left = guarded(request_with(part, call)).contents[0].parts
    assert left == (
        replace(part, data=f"a {MARK}"),
        replace(call, data=replace(call.data, args={"a": MARK})),
    )


def test_media_and_unknown_parts_are_unchanged():
    image = "AIza" + "A" * 400
    request = request_with(Part(InlineData("image/png", image)), Part(OtherData("future", image)), Part())
    assert guarded(request) is request


def test_the_clients_request_is_not_modified():
    args = {"a": [KEYS["AWS"]]}
    guarded(request_with(Part(FunctionCall("f", args))))
    assert args == {"a": [KEYS["AWS"]]}


def test_redaction_is_idempotent():
    once = guarded(request_with(*map(Part, KEYS.values())))
    assert guarded(once) is once


def watched(guards: GuardSettings) -> tuple[GenerateRequest, GenerateRequest, dict[str, int]]:
    request = request_with(Part(KEYS["Anthropic"]), system=Content(MODEL, (Part(KEYS["AWS"]),)))
    watch = GuardRunner(ActiveGuards(guards), "r1")
    return request, watch.request(request), watch.notes


def test_redaction_is_off_by_default():
    delivered = load_guards(PROJECT / "config" / "guards.toml")
    assert delivered.modes.secrets == "off"
    request, left, notes = watched(delivered)
    assert left is request
    assert not notes


def test_enabled_redaction_is_applied_and_counted():
    delivered = load_guards(PROJECT / "config" / "guards.toml")
    on = replace(delivered, modes=replace(delivered.modes, secrets="enforce"))
    _, left, notes = watched(on)
    assert (left.system.parts[0].data, left.contents[0].parts[0].data) == (MARK, MARK)
    assert notes == {"guard.secrets.changed": 1}


def test_a_truncated_private_key_is_redacted_completely():
    """A truncated result may hold part of a key, which must be redact like a whole key."""
    delivered = load_guards(PROJECT / "config" / "guards.toml")
    small = replace(
        delivered,
        modes=replace(delivered.modes, secrets="enforce"),
        large_output=replace(delivered.large_output, most_characters=2000),
    )
    body = "\n".join(f"{number:02}" + "k" * 62 for number in range(50))
    output = "x" * 150 + "\n" + block("RSA PRIVATE KEY", body) + "\n" + "tail\n" * 400
    request = request_with(Part(FunctionResponse("f", {"result": output}, "c1")))
    left = GuardRunner(ActiveGuards(small), "r1").request(request)
    assert "k" * 62 not in repr(left)


@ANY_SPEED
@given(ODD, st.sampled_from(sorted(KEYS.values())), ODD)
def test_a_key_in_any_text_is_redacted(before, key, behind):
    assert key not in redact(f"{before} {key} {behind}")


@ANY_SPEED
@given(st.text(alphabet=st.characters(exclude_characters="-_", max_codepoint=0x3FF), max_size=30))
def test_a_text_too_short_for_a_key_is_unchanged(text):
    assert redact(text) == text


VALUES = st.recursive(
    ODD | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3), max_leaves=5
)


@ANY_SPEED
@given(st.dictionaries(ODD, VALUES, max_size=3))
def test_arguments_without_keys_are_the_same_object(args: dict[str, Any]):
    request = request_with(Part(FunctionCall("f", args)))
    assert guarded(request) is request
