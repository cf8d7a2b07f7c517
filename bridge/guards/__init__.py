"""The guards, in the order in which they check a request or a call.

The tool policy checks a call as the model made it. Then the repairs change it, and the shell gate checks
the result, so that it does not block a call that a repair made valid. In requests, the loop detector checks
the unchanged history. Then secrets are removed, while they are still complete, and finally long results are
truncated.
"""

from bridge.guards.apply_patch import ApplyPatch
from bridge.guards.base import Guard
from bridge.guards.large_output import LargeOutput
from bridge.guards.loop import LoopDetector
from bridge.guards.secrets import SecretRedaction
from bridge.guards.shell_arguments import ShellArguments
from bridge.guards.shell_gate import ShellGate
from bridge.guards.tool_policy import ToolPolicy

GUARDS: tuple[type[Guard], ...] = (
    ToolPolicy,
    ShellArguments,
    ApplyPatch,
    ShellGate,
    LoopDetector,
    SecretRedaction,
    LargeOutput,
)
