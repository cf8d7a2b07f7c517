"""What Chat Completions can express and Gemini cannot. `docs/losses.md` is generated from these tables."""

from collections.abc import Mapping

REQUEST_LOSSES: Mapping[str, str] = {
    "chat.parallel_tool_calls": "Gemini cannot be limited to one call in an answer.",
    "chat.audio": "The bridge answers with text only.",
    "chat.filename": "Gemini takes no name for a file.",
    "chat.image_detail": "Gemini has no setting for the detail of one image.",
    "chat.moderation": "OpenAI's own moderation.",
    "chat.prompt_cache_options": "Gemini cannot keep a prompt out of its own cache.",
    "chat.name": "Gemini has no names for the speakers of one role.",
    "chat.obfuscation": "The bridge does not pad the events of a stream.",
    "chat.store": "The bridge does not store Chat Completions.",
    "chat.verbosity": "Gemini has no setting for the length of an answer.",
    "chat.prediction": "Gemini does not use a predicted answer.",
    "chat.assistant_audio": "Gemini does not have the audio of an earlier answer, which OpenAI stores.",
    "chat.layout_does_not_fit": "The stored order of an answer's parts does not match its content.",
}
ANSWER_LOSSES: Mapping[str, str] = {
    "chat.part_not_shown": "The protocol has no field for this kind of part.",
    "chat.second_function_call": "The legacy field `function_call` holds one call only.",
}
