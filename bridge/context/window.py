"""The part of a model's context window that a request may use."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.gemini.generation import OUTPUT_LIMIT
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.types import GenerateRequest
from bridge.settings.context import ContextSettings

#: Tokens for the answer, if the request names no limit.
USUAL_OUTPUT = 8192
#: The largest share of the window that the answer, and the newest turns, may reserve.
LARGEST_SHARE = 4
#: A saving below this share of the window is not worth a changed prompt.
LEAST_SHARE = 8
SMALLEST_GRID = 64


@dataclass(frozen=True, slots=True)
class Window:
    limit: int  #: tokens of input that the model accepts
    reserve: int  #: tokens of them that stay free for the answer
    grid: int  #: the places where a history is cut are multiples of this many estimated tokens
    protected: int  #: estimated tokens of the newest turns that keep their results and media
    least_saved: int  #: estimated tokens that masking results must save
    scale: float = 1.0  #: tokens that the model counts for one estimated token

    @property
    def budget(self) -> int:
        """The tokens that the request may have."""
        return self.limit - self.reserve

    @property
    def room(self) -> int:
        """The estimated tokens that the request may have."""
        return int(self.budget / self.scale)


def window_of(
    request: GenerateRequest, capabilities: ModelCapabilities, settings: ContextSettings
) -> Window | None:
    """None if the model's window is not known."""
    limit = capabilities.window
    if not limit:
        return None
    return Window(
        limit,
        _reserve(request, capabilities),
        _grid(limit, settings.grid),
        min(settings.protected_tokens, limit // LARGEST_SHARE),
        min(settings.least_saved, limit // LEAST_SHARE),
    )


def _reserve(request: GenerateRequest, capabilities: ModelCapabilities) -> int:
    if not capabilities.shared_window:
        return 0
    asked = request.generation.get(OUTPUT_LIMIT)
    wanted = asked if isinstance(asked, int) and asked > 0 else USUAL_OUTPUT
    longest = min(wanted, capabilities.output_limit or wanted)
    return min(longest, capabilities.window // LARGEST_SHARE)


def _grid(limit: int, most: int) -> int:
    """A power of two, so that it depends on little: at most an eighth of the window."""
    fitting = 1 << max(limit // LEAST_SHARE, 1).bit_length() - 1
    return max(min(most, fitting), SMALLEST_GRID)
