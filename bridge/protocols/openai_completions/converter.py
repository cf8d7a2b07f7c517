"""A Completions request to Gemini's: the prompt is the only message, instructions say how to complete it."""

from __future__ import annotations

from typing import Any

from bridge.gemini.types import USER, Content, GenerateRequest, JsonObject, Part, Thinking
from bridge.protocols.base import Caller, ConvertedRequest
from bridge.protocols.json_reading import MAX_STOP_SEQUENCES, invalid_field, stop_sequences
from bridge.protocols.openai_completions.gaps import Gap, gap_in_template, question
from bridge.protocols.openai_completions.machine import CompletionOptions
from bridge.protocols.openai_sampling import sampling_from_openai

#: The protocol has no place for thoughts, and an editor does not wait for them.
NO_THINKING = Thinking(effort="none", show=False)


def to_gemini(body: JsonObject, _caller: Caller) -> ConvertedRequest:
    _reject_unsupported_fields(body)
    prompt = _prompt(body["prompt"])
    suffix = body.get("suffix")
    gap = gap_in_template(prompt) if suffix is None else Gap(prompt, suffix)
    if not prompt and not suffix:
        raise invalid_field("must not be empty", "prompt")
    system, text = question(prompt, gap)
    stop, losses = _stop(body)
    request = GenerateRequest(
        model=body["model"],
        contents=(Content(USER, (Part(text),)),),
        system=Content(None, (Part(system),)),
        generation=_generation(body, stop),
        thinking=NO_THINKING,
    )
    stream = bool(body.get("stream"))
    return ConvertedRequest(request, stream, _options(body, prompt, gap), (*losses, *_losses(body)))


def _prompt(prompt: Any) -> str:
    if isinstance(prompt, str):
        return prompt
    if not all(isinstance(each, str) for each in prompt):
        raise invalid_field("Gemini has tokens of its own; send text instead of tokens", "prompt")
    if len(prompt) > 1:
        raise invalid_field("must be one text; send a request for each prompt", "prompt")
    only: str = prompt[0]
    return only


def _options(body: JsonObject, prompt: str, gap: Gap | None) -> CompletionOptions:
    stream = body.get("stream")
    return CompletionOptions(
        include_usage=not stream or bool((body.get("stream_options") or {}).get("include_usage")),
        logprobs=body.get("logprobs") is not None,
        echo=prompt if body.get("echo") else "",
        # A document with fences of its own may need another one at the cursor.
        unfence=gap is not None and not any("```" in text for text in gap),
    )


def _stop(body: JsonObject) -> tuple[list[str], list[str]]:
    """Editors send the end marks of several models at once. Gemini gets the first of them."""
    stop = body.get("stop")
    if isinstance(stop, list) and len(stop) > MAX_STOP_SEQUENCES:
        stop_sequences(stop[MAX_STOP_SEQUENCES:][:MAX_STOP_SEQUENCES], "stop")
        return stop_sequences(stop[:MAX_STOP_SEQUENCES], "stop"), ["completions.stop"]
    return stop_sequences(stop, "stop"), []


def _losses(body: JsonObject) -> list[str]:
    """Wishes without a counterpart, which a client can do without."""
    losses = ["completions.best_of"] if (body.get("best_of") or 1) > (body.get("n") or 1) else []
    if (body.get("stream_options") or {}).get("include_obfuscation"):
        losses.append("completions.stream_options")
    return losses


def _generation(body: JsonObject, stop: list[str]) -> dict[str, Any]:
    generation = sampling_from_openai(body)
    if body.get("max_tokens") is not None:
        generation["maxOutputTokens"] = body["max_tokens"]
    if stop:
        generation["stopSequences"] = stop
    if body.get("logprobs") is not None:
        generation["responseLogprobs"] = True
        if body["logprobs"]:
            generation["logprobs"] = body["logprobs"]
    return generation


def _reject_unsupported_fields(body: JsonObject) -> None:
    if body.get("logit_bias"):
        raise invalid_field("Gemini cannot bias single tokens; leave it out", "logit_bias")
    if body.get("echo") and body.get("logprobs") is not None:
        raise invalid_field(
            "Gemini has no log probabilities of the prompt; leave out echo or logprobs", "logprobs"
        )
    if (body.get("best_of") or 20) < (body.get("n") or 1):
        raise invalid_field("must not be less than n", "best_of")
