"""The simulated Gemini server, without a network: it takes a request and returns Google's status and bytes.

It runs inside the bridge or behind a real socket. The same request always gets the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridge.gemini.types import JsonObject
from bridge.upstream.demo import ask, script_writer
from bridge.upstream.demo.faults import FAULTS
from bridge.upstream.demo.script import Reply, Scene

MODEL_NAME = "demo"
_ABOUT = "Embedded offline model: streams believable text, calls declared tools and misbehaves on demand"


def answer(model: str, body: JsonObject) -> Reply:
    """The answer of `models/{model}:streamGenerateContent?alt=sse` to this body."""
    asked = ask.read(model, body, FAULTS)
    scene = Scene(asked, script_writer.write(asked))
    return scene.reply() if asked.variant is None else FAULTS[asked.variant].play(scene)


def count_tokens(model: str, body: JsonObject) -> int:
    return ask.read(model, body, FAULTS).prompt_tokens


def models() -> Sequence[JsonObject]:
    """The models in the format of Google's list. Any other name works too, like `demo`."""
    variants = [
        _entry(f"{MODEL_NAME}-{name}", f"Demo ({name})", f"Demo model that {fault.summary}")
        for name, fault in FAULTS.items()
    ]
    return [_entry(MODEL_NAME, "Demo", _ABOUT), *variants]


def _entry(name: str, display_name: str, description: str) -> JsonObject:
    return {
        "name": f"models/{name}",
        "baseModelId": name,
        "version": "001",
        "displayName": display_name,
        "description": description,
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": ask.OUTPUT_LIMIT,
        "supportedGenerationMethods": [
            "generateContent",
            "countTokens",
            "embedContent",
            "batchEmbedContents",
        ],
    }
