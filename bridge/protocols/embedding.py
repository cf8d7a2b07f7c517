"""A protocol's endpoint for embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from marshmallow import Schema

from bridge.gemini.types import Content, JsonObject

if TYPE_CHECKING:
    from bridge.protocols.base import Caller


class ConvertedEmbedding(NamedTuple):
    """An embedding request, converted to Google's API."""

    model: str  #: the client's name for the model
    method: str
    contents: tuple[Content, ...]
    body: Callable[[str, Sequence[Content]], JsonObject]  #: builds the request body for the resolved model
    #: What is kept of Google's answer to one call, with the number of its contents.
    read: Callable[[JsonObject, int], Any] = lambda answer, _contents: answer
    #: The answer in the protocol's format, from what was kept of each call and the tokens of all contents.
    answer: Callable[[Sequence[Any], int], JsonObject] = lambda kept, _tokens: kept[0]
    most_at_once: int | None = None  #: contents in one call; None: all of them
    losses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Embedding:
    """A protocol's endpoint for embeddings."""

    paths: tuple[str, ...]
    schema: Schema
    to_gemini: Callable[[JsonObject, Caller], ConvertedEmbedding]
    label: str | None = None  #: its name in metrics and usage, if not the protocol's
