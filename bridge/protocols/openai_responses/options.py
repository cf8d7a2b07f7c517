"""What the answer to a Responses request needs to know of the request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bridge.gemini.types import JsonObject
from bridge.protocols.openai_responses.dialects import DIALECTS, Dialect
from bridge.protocols.openai_responses.tools import CalledTool
from bridge.protocols.summary_seal import SummarySeal


@dataclass(frozen=True, slots=True)
class ResponsesOptions:
    dialect: Dialect = DIALECTS["bridge"]
    #: The client's tool behind each declared function.
    calls: Mapping[str, CalledTool] = field(default_factory=dict)
    thinking: bool = False
    encrypted_reasoning: bool = False  #: reasoning items may carry signatures
    logprobs: bool = False
    approved: frozenset[str] = frozenset()  #: the ids of the calls that the request approves
    seal: SummarySeal = field(default_factory=SummarySeal)
    echo: JsonObject = field(default_factory=dict)  #: fields of the request that the response repeats
