"""The guards, in the order in which they look at a request or a call.

A call is judged as the model made it, then repaired, then gated as it would be run: the policy must not see a
spelling that a repair makes up, and the gate must not hold back what a repair has mended. On the way to
Gemini loops are found in the untouched history; then secrets go, while they are still whole, and at last long
results are cut.
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
