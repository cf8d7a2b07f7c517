"""What Messages can express and Gemini cannot. `docs/losses.md` is generated from these tables."""

from collections.abc import Mapping

REQUEST_LOSSES: Mapping[str, str] = {
    "messages.disable_parallel_tool_use": "Gemini cannot be limited to one call in an answer.",
    "messages.redacted_thinking": "Only Anthropic can read its encrypted thoughts.",
    "messages.unknown_version": "The rules of the latest known version apply to this `anthropic-version`.",
    "messages.advisor_tool_result": "Gemini cannot receive results of Anthropic's advisor.",
    "messages.between_tools": "What Gemini says between calls is text, and no thinking.",
    "messages.billing_policy": "Anthropic's own billing.",
    "messages.citations": "Gemini cites pages of its own search only.",
    "messages.compaction": "Only its writer can vouch for a summary that the bridge did not write.",
    "messages.container_upload": "Gemini keeps no container between requests.",
    "messages.container": "Gemini keeps no container between requests.",
    "messages.diagnostics": "Gemini has no such report.",
    "messages.encrypted_stdout": "Only Anthropic can read the encrypted output of its code execution.",
    "messages.fallback": "A mark of Anthropic's change to another model.",
    "messages.fallback_credit_token": "Anthropic's own billing.",
    "messages.fallbacks": "The administrator configures fallback models.",
    "messages.mcp_servers": "The administrator does not let the bridge call this server.",
    "messages.mcp_tool_result": "The call of this result is not in the same message.",
    "messages.task_budget": "Gemini has no budget for a whole task.",
    "messages.server_tool_use": "Gemini cannot receive calls of tools that only Anthropic runs.",
    "messages.speed": "Gemini has no fast mode; `service_tier` chooses a service tier.",
    "messages.text_editor_code_execution_tool_result": (
        "Gemini cannot receive results of an editor that Anthropic ran."
    ),
    "messages.block_binding": "Gemini does not bind thoughts to blocks.",
    "messages.thinking_updates": "Gemini sends summaries of its thoughts, and no updates beside them.",
    "messages.tool": "Gemini has no tool like this tool of Anthropic's servers.",
    "messages.tool_field": "Gemini's own tool has no setting like this field.",
    "messages.tool_search_tool_result": "Gemini cannot receive results of Anthropic's tool search.",
    "messages.tool_strict": "Only tools that the client runs have a strict mode.",
    "messages.tool_allowed_callers": "Gemini calls a tool itself, and not from code that it runs.",
    "messages.transformations": "The bridge does not transform files.",
}
ANSWER_LOSSES: Mapping[str, str] = {
    "messages.citation_of_earlier_text": "Its text was complete before Gemini named the source.",
    "messages.part_not_shown": "The protocol has no block for this kind of part.",
    "messages.thought_not_asked_for": "The client did not ask for thoughts.",
    "messages.signature_without_a_seat": "The protocol has no field for the signature of this part.",
    "messages.thought_at_the_end": "Clients reject an answer that ends with a thought.",
}
