"""Why Gemini stopped an answer, in words for users."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.gemini.finish import FinishReason

#: Every refusal begins with these words, so that converters recognise it in a history.
PREFIX = "Gemini, Google's model, stopped this answer"

_R = FinishReason
_REASONS: Mapping[str, str] = {
    _R.SAFETY: "its safety filter objected to the prompt or the answer",
    _R.RECITATION: "the answer was too close to a text with copyright",
    _R.LANGUAGE: "it does not support the language",
    _R.BLOCKLIST: "the prompt or the answer contains a forbidden term",
    _R.PROHIBITED_CONTENT: "the prompt or the answer contains content that Google prohibits",
    _R.SPII: "the answer contained sensitive personal data",
    _R.IMAGE_SAFETY: "its safety filter objected to the image",
    _R.IMAGE_PROHIBITED_CONTENT: "the image shows content that Google prohibits",
    _R.IMAGE_RECITATION: "the image was too close to an image with copyright",
    _R.NO_IMAGE: "it made no image",
}
#: The reasons why Gemini does not answer a prompt at all.
_BLOCKS: Mapping[str, str] = {
    "SAFETY": "its safety filter objected to the prompt",
    "BLOCKLIST": "the prompt contains a forbidden term",
    "PROHIBITED_CONTENT": "the prompt contains content that Google prohibits",
    "IMAGE_SAFETY": "its safety filter objected to an image that the prompt contains or asks for",
    "MODEL_ARMOR": "the rules of Model Armor forbid the prompt",
    "JAILBREAK": "the prompt looks like an attempt to get around the safety rules",
}
_UNNAMED = "Google names no reason"


def refusal_text(finish_reason: str) -> str:
    return _text(_REASONS.get(finish_reason, _UNNAMED), finish_reason)


def blocked_prompt_text(block_reason: str) -> str:
    return _text(_BLOCKS.get(block_reason, _UNNAMED), block_reason)


def _text(words: str, reason: str) -> str:
    return f"{PREFIX}: {words} ({reason})."
