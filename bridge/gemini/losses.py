"""The losses that all protocols share: what a model or a size limit drops from a request.

The names are also notes of the model adapter and of repairs. A note that is not listed here drops nothing
of the client's request.
"""

from collections.abc import Mapping

SCHEMA_DETAILS = "tools.schema_details"
THINKING_AMOUNT = "generation.thinking_amount"
IMAGES_NOT_DRAWN = "tools.image_generation"
SAMPLING_NOT_SENT = "generation.sampling_not_sent"
STRICT_CALLS = "tools.strict"
SEARCH_BESIDE_FUNCTIONS = "tools.search_beside_functions"
SETTINGS_NOT_SENT = "upstream.settings"
TOOL_CHOICE_IN_TEXT = "tools.choice_in_text"
AGENT_TOOLS = "agent.tools"
AGENT_INSTRUCTION = "agent.instruction"
AGENT_CANDIDATES = "agent.candidates"
GOOGLES_CHOICE = "tools.googles_choice"

REQUEST_LOSSES: Mapping[str, str] = {
    "tools.references_cut": "A schema that refers to itself is expanded to a limited depth.",
    IMAGES_NOT_DRAWN: "The model cannot draw images.",
    SEARCH_BESIDE_FUNCTIONS: "The model does not allow this tool of Google beside functions.",
    SCHEMA_DETAILS: "Gemini refused the schema of a tool; only its basic keywords are sent.",
    STRICT_CALLS: "Gemini refused to check calls against the schema of their function.",
    SAMPLING_NOT_SENT: "The model does not accept sampling settings.",
    SETTINGS_NOT_SENT: "The upstream of this model has no such setting.",
    TOOL_CHOICE_IN_TEXT: "The model gets its tools as text, so the required tool call is only a request.",
    AGENT_TOOLS: "The model is an agent, which uses its own tools only.",
    AGENT_INSTRUCTION: "The model is an agent, which follows its own instruction.",
    AGENT_CANDIDATES: "The model is an agent, which gives one answer.",
    GOOGLES_CHOICE: "Gemini itself decides whether to use a tool that Google runs; nothing can require it.",
    THINKING_AMOUNT: "The model does not accept this effort or budget for thinking.",
}
