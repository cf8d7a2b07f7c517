"""What a Gemini model can do, as far as the bridge must know it.

Pure values: which model has which traits is written in `config/models.toml`, and no model is named here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Every thinking level there is, the lowest first; a model may have only some of them.
LEVELS = ("minimal", "low", "medium", "high")


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """The defaults ask for nothing that any model would refuse."""

    family: str = ""  #: models of one family understand each other's thought signatures
    thinking_budget: tuple[int, int] | None = None  #: the fewest and the most thinking tokens it takes
    thinking_can_be_off: bool = False  #: it takes a budget of 0
    thinking_levels: tuple[str, ...] = ()
    needs_signatures: bool = False  #: it refuses a call of its own that comes back unsigned
    tool_media: bool = False  #: a function response may hold images
    json_beside_tools: bool = False  #: an answer as JSON may be asked for beside tools
    prefill: bool = False  #: the conversation may end with a model turn
    window: int = 0  #: the most input tokens it takes; 0 if that is not known
    output_limit: int = 0  #: the most output tokens it takes; 0 if that is not known
    shared_window: bool = False  #: input and output together must fit into the window
    output_floor: int = 0  #: fewer output tokens than this may all go into thoughts
    ignores_sampling: bool = False  #: it takes no notice of temperature and its kin, or refuses them
    fallbacks: tuple[str, ...] = ()  #: models that are asked instead while it is overloaded or out of quota

    def in_realm(self, realm: str) -> ModelCapabilities:
        """The same model behind another door: there its family has other signatures."""
        return replace(self, family=f"{realm}.{self.family}") if realm else self
