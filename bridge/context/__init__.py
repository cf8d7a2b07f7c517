"""Keeps long conversations within the window of their model. Sans IO; works on Gemini's values.

`bridge/exchange/context_fitting.py` calls this layer after the guards and before the model adapter, for all
protocols and upstreams. There are two kinds of steps (`base.py`):

- An edit (`RequestEdit`) needs no window. It changes every request, in the order of EDITS, once per request.
  It must be fast: it returns `Edited(request)` with the same object if it has nothing to do. A `ClientEdit`
  runs only for requests that wish it.
- A step of the ladder (`LadderStep`) runs only if the request does not fit into the window of its model, and
  only for clients that `context.compress` names, or if the request wishes it. The steps run in the order of
  LADDER until the history fits. A step gets the `History` (merged and paired turns with their estimated
  sizes) and the `Window`, and returns `Shortened(history, number of changes)`.

A new step is one file and one line below. Its switch is the setting of the same name in
`bridge/settings/context.py`; without one it is always on. What a step did becomes a `StepTaken`: a note, an
entry of the header `x-bridge-context`, and a line of `gemini-bridge context explain`. The machines of the
protocols can tell it to the client too (`EventMachine.context_steps`).

A client wishes a step with `GenerateRequest.context`, a tuple of `ContextWish(name, options)`; a converter
sets it, with a name from `bridge/gemini/context_steps.py`. A wished step runs although `compress` is off;
`ContextStep.wished(settings, options)` makes it from the options.

The step `summary` only uses summaries that exist: `History.summaries` has them. The exchange layer looks them
up by `turn_digests`, has a model write what is missing (`summary_task.py`), and runs the ladder again.

Prefix stability: a step must decide about turn `i` from turns up to `i` and from `history.before(protected,
window.grid)` alone. This place moves only in steps of the grid, so the upstream's cache of the prompt is lost
once per grid step, and not with each turn.
"""

from bridge.context.base import LadderStep, RequestEdit
from bridge.context.clear_thinking import ClearThinking
from bridge.context.clear_tool_uses import ClearToolUses
from bridge.context.leading_turns import LeadingTurns
from bridge.context.old_media import OldMedia
from bridge.context.old_results import OldResults
from bridge.context.old_thoughts import OldThoughts
from bridge.context.repeated_turns import RepeatedTurns
from bridge.context.strict_history import StrictHistory
from bridge.context.summary import Summary

EDITS: tuple[type[RequestEdit], ...] = (
    StrictHistory,
    RepeatedTurns,
    ClearThinking,
    ClearToolUses,
)
LADDER: tuple[type[LadderStep], ...] = (OldThoughts, OldResults, OldMedia, Summary, LeadingTurns)
