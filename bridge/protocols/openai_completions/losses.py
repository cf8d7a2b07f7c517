"""What Completions can express and Gemini cannot. `docs/losses.md` is generated from these tables."""

from collections.abc import Mapping

REQUEST_LOSSES: Mapping[str, str] = {
    "completions.best_of": "Gemini returns as many answers as `n` says, and chooses none of them.",
    "completions.stop": "Gemini takes five stop sequences; the others are dropped.",
    "completions.stream_options": "The bridge does not pad the events of a stream.",
}
ANSWER_LOSSES: Mapping[str, str] = {
    "completions.part_not_shown": "The protocol has text only.",
    "completions.thought_not_shown": "The protocol has no field for thoughts.",
}
