"""What Interactions can express and Gemini cannot. `docs/losses.md` is generated from these tables."""

from collections.abc import Mapping

REQUEST_LOSSES: Mapping[str, str] = {
    "interactions.labels": "Gemini's API for content has no labels.",
    "interactions.media_name": "Gemini's API for content has no field for the name of a medium.",
    "interactions.thought_image": "Gemini's API for content takes thoughts as text only.",
    "interactions.signature_of_another_text": "The signature belongs to a text that the input does not have.",
    "interactions.signature_of_another_part": "The signature belongs to a part that the input does not have.",
    "interactions.step": "Only Google's servers produce and read steps of this kind.",
}
ANSWER_LOSSES: Mapping[str, str] = {
    "interactions.part_not_shown": "The protocol has no step for this kind of part.",
    "interactions.thought_not_asked_for": "The client did not ask for thoughts.",
    "interactions.code_outcome": "The protocol has no value for this outcome of executed code.",
    "interactions.part_fields": "The protocol has no place for additional fields of a part.",
}
