"""Every client, in every protocol that it speaks, against a Gemini that checks signatures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agents import AGENTS, Agent, Ran
from installed import FOLDER, HERE, installed_version, pinned, why_missing
from scripted_gemini import CUT, Asked, sse, text_chunk
from signed_conversation import SignedConversation, has_tools, parts, refusal

pytestmark = pytest.mark.timeout(240)  # some clients need two prompts
OVERFLOW = "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."


class User:
    """A user of a client, with a separate home."""

    def __init__(self, agent: Agent, folder: Path) -> None:
        self.agent, self._folder = agent, folder

    def asks(self, prompt: str, again: bool = False) -> Ran:
        return self.agent.ask(prompt, self._folder, again)

    def runs(self, command: str) -> tuple[str, dict[str, object]]:
        return self.agent.tool.call(command)


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.id)
def user(request, bridge, tmp_path):
    agent: Agent = request.param
    missing = [why for package in agent.packages if (why := why_missing(package))]
    if missing:
        assert FOLDER != HERE, missing  # the pinned versions can be installed
        pytest.skip(f"not run: {missing[0]}")
    agent.set_up(bridge.address, tmp_path)
    return User(agent, tmp_path)


def say(text: str) -> list[bytes]:
    return sse(text_chunk(text, "STOP"))


def results(asked: Asked) -> list[str]:
    return [json.dumps(part["functionResponse"]["response"]) for part in parts(asked, "functionResponse")]


def test_text(user, gemini):
    talk = SignedConversation(say("Hello from the bridge."))
    gemini.will_answer(talk)
    ran = user.asks("say hello")
    assert "Hello from the bridge." in ran.said
    assert ran.code == 0
    assert "say hello" in json.dumps(talk.asked[0].body["contents"])
    assert len(talk.asked) == 1


def test_tools_in_parallel(user, gemini):
    talk = SignedConversation()
    commands = [user.runs(f"seq -s - {number}0 {number}3") for number in (1, 2, 3)]
    talk.will(talk.calls(*commands), say("All three."))
    gemini.will_answer(talk)
    ran = user.asks("three at once")
    assert "All three." in ran.said, talk.refused
    told = results(talk.asked[-1])
    assert len(told) == 3
    assert all(f"{number}0-{number}1-{number}2-{number}3" in told[number - 1] for number in (1, 2, 3))


def test_thinking_and_signatures(user, gemini, record_property):
    """Two prompts of one conversation, with calls in several turns; each call keeps its own signature."""
    talk = SignedConversation()
    talk.will(
        talk.calls(user.runs("echo first"), thought="I think of the first."),
        talk.calls(user.runs("echo second"), user.runs("echo beside"), thought="And of the second."),
        say("Once done."),
        talk.calls(user.runs("echo third"), thought="Now the third."),
        say("Twice done."),
    )
    gemini.will_answer(talk)
    assert "Once done." in user.asks("please think").said, talk.refused
    commands = 3
    if user.agent.resumes:
        assert "Twice done." in user.asks("think again", again=True).said, talk.refused
        commands = 4
    else:
        record_property("told", "yes, in one run")
    assert talk.refused == []
    assert len(results(talk.asked[-1])) == commands
    thinking = talk.asked[0].body["generationConfig"]["thinkingConfig"]
    assert thinking["includeThoughts"] is user.agent.shows_thoughts


def test_a_refusal_is_shown(user, gemini):
    gemini.will_answer(lambda asked: refusal(400, "INVALID_ARGUMENT", "The bridge-test field is unknown."))
    assert "The bridge-test field is unknown." in user.asks("please try").said


def test_a_context_overflow_is_handled(user, gemini, record_property):
    """After some steps the context overflows: the client compacts it, or reports the overflow."""
    talk = SignedConversation()
    refused: list[Asked] = []

    def answer(asked: Asked):
        taken = len(parts(asked, "functionResponse"))
        if taken < 3 and has_tools(asked) and not refused:
            return talk.calls(user.runs(f"seq -s , {taken + 1}00000 {taken + 1}06000"))  # some 40 kB
        if refused and asked.body["contents"] != refused[0].body["contents"]:
            return say("Went on.")
        refused.append(asked)
        return refusal(400, "INVALID_ARGUMENT", OVERFLOW)

    gemini.will_answer(answer)
    ran = user.asks("take many steps")
    record_property("told", "makes it shorter" if "Went on." in ran.said else "says so")
    assert "Went on." in ran.said or "1048576" in ran.said or "context" in ran.said.lower()
    assert len(refused) <= 3


def test_a_truncated_stream_is_handled(user, gemini, record_property):
    """The client retries a truncated answer, or reports the failure."""
    talk = SignedConversation([*sse(text_chunk("Half an ans")), CUT], say("The whole answer."))
    gemini.will_answer(talk)
    ran = user.asks("tell me")
    record_property("told", "asks again" if "The whole answer." in ran.said else "says so")
    assert "The whole answer." in ran.said or ran.code != 0 or "error" in ran.said.lower()


@pytest.mark.skipif(FOLDER != HERE, reason="the newest are not pinned")
def test_the_pinned_versions_are_installed():
    for package in (package for agent in AGENTS for package in agent.packages):
        assert installed_version(package) == pinned()[package]
