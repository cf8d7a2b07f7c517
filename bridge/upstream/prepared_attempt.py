"""A request that is ready for one upstream, with what turns the answer back."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from bridge.gemini.model_adapter import AnswerAdapter
from bridge.gemini.types import Chunk, GenerateRequest
from bridge.settings.routes import Target
from bridge.upstream.base import Upstream


class TextAnswerReader(Protocol):
    """Finds calls and thoughts in the text of one answer."""

    def feed(self, chunk: Chunk) -> Chunk: ...


class PreparedAttempt(NamedTuple):
    """The request adapted to one target, the adapter for its answer, and the target's upstream."""

    target: Target
    upstream: Upstream
    request: GenerateRequest
    adapter: AnswerAdapter
    #: Set if the model writes calls or thoughts as text. Each attempt needs a reader of its own.
    new_text_reader: Callable[[], TextAnswerReader] | None = None

    def new_feed(self) -> Callable[[Chunk], Chunk]:
        """The function that adapts each chunk of one answer."""
        adapt = self.adapter.feed
        if self.new_text_reader is None:
            return adapt
        read = self.new_text_reader().feed
        return lambda chunk: adapt(read(chunk))
