"""What a Gemini model can do, as far as the bridge depends on it.

`config/models.toml` lists the capabilities of each model; this module names no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

#: All thinking levels, the lowest first. A model may support only some of them.
LEVELS = ("minimal", "low", "medium", "high")

#: The allowed values of capabilities that are one of several words.
CHOICES: Mapping[str, tuple[str, ...]] = {
    "cache": ("on", "off"),
    "tools": ("native", "text"),
    "think": ("show", "drop", "off"),
    "think_opens": ("model", "template"),
}


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """The capabilities of one model. With the defaults the bridge sends nothing that a model could reject."""

    family: str = ""  #: models of one family accept each other's thought signatures
    thinking_budget: tuple[int, int] | None = None  #: the smallest and the largest budget of thinking tokens
    thinking_can_be_off: bool = False  #: it accepts a budget of 0
    thinking_levels: tuple[str, ...] = ()
    needs_signatures: bool = False  #: it rejects a history whose calls are not signed
    tool_media: bool = False  #: a function response may contain images
    json_beside_tools: bool = False  #: a request may ask for a JSON answer and declare tools
    search_beside_functions: bool = False  #: it searches and calls functions in one answer
    prefill: bool = False  #: the conversation may end with a model turn
    window: int = 0  #: the maximum of input tokens; 0 if unknown
    output_limit: int = 0  #: the maximum of output tokens; 0 if unknown
    shared_window: bool = False  #: input and output together must fit into the window
    output_floor: int = 0  #: with a lower output limit, thoughts may use up all tokens
    draws: bool = False  #: its answers may contain images
    ignores_sampling: bool = False  #: it ignores or rejects sampling settings such as temperature
    cache: str = ""  #: "on": the request cache is used for it; "off": it never is; "": the key decides
    summary_model: str = ""  #: the model that summarises its conversations; empty: the model itself
    fallbacks: tuple[str, ...] = ()  #: models to use while it is overloaded or out of quota
    # Empty or not set: the row of the upstream decides.
    tools: str = ""  #: `text`: it gets the tools in its instruction, and writes calls as text
    preserve_context: bool = True  #: an answer with calls in its text keeps the text around them
    #: For each tool, other spellings of its parameters that the model uses in calls as text.
    parameter_map: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    think: str = (
        ""  #: what happens to thoughts between <think> tags; empty: the bridge does not look for them
    )
    think_opens: str = ""  #: `template`: the prompt ends with <think>, so answers begin inside a thought
    soft_switch: str = ""  #: the text before a user's text that switches thinking off

    def in_realm(self, realm: str) -> ModelCapabilities:
        """The same model at another upstream, whose signatures are not interchangeable with this one's. Only
        Gemini's own API has the field for search beside functions."""
        if not realm:
            return self
        return replace(self, family=f"{realm}.{self.family}", search_beside_functions=False)

    @property
    def in_text(self) -> bool:
        """Whether the model gets or writes as text what other models get or write as separate parts."""
        return self.tools == "text" or bool(self.think or self.soft_switch)
