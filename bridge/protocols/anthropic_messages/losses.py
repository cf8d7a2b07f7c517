"""What Messages can express and Gemini cannot. `docs/losses.md` is generated from these tables."""

from collections.abc import Mapping

REQUEST_LOSSES: Mapping[str, str] = {
    "messages.disable_parallel_tool_use": "Gemini cannot be limited to one call in an answer.",
    "messages.redacted_thinking": "Only Anthropic can read its encrypted thoughts.",
    "messages.unknown_version": "The rules of the latest known version apply to this `anthropic-version`.",
    "messages.mcp_tool_use": "Gemini cannot receive calls that Anthropic's servers made.",
    "messages.mcp_tool_result": "Gemini cannot receive results of calls that Anthropic's servers made.",
    "messages.code_execution_tool_result": "Gemini cannot receive results of code that Anthropic ran.",
    "messages.bash_code_execution_tool_result": "Gemini cannot receive results of code that Anthropic ran.",
    "messages.text_editor_code_execution_tool_result": (
        "Gemini cannot receive results of an editor that Anthropic ran."
    ),
    "messages.tool_search_tool_result": "Gemini cannot receive results of Anthropic's tool search.",
}
ANSWER_LOSSES: Mapping[str, str] = {
    "messages.part_not_shown": "The protocol has no block for this kind of part.",
    "messages.thought_not_asked_for": "The client did not ask for thoughts.",
    "messages.signature_without_a_seat": "The protocol has no field for the signature of this part.",
    "messages.thought_at_the_end": "Clients reject an answer that ends with a thought.",
}
