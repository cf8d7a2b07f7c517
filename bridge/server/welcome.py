"""What the bridge says when it is ready."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from bridge.server.active_settings import ActiveSettings
from bridge.settings.source import CLIENT_KEY

_TEXT = """
Gemini Bridge on {address}  ({upstream})
Access: {access}
Try it:
  curl -N {address}/v1/chat/completions -H 'content-type: application/json' \\{key}
    -d '{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "Who are you?"}}]}}'
Connect your tools: open {address} in a browser, or run {command} connect
Stop with Ctrl-C.
"""
_KEY = f"""
    -H "authorization: Bearer ${CLIENT_KEY}" \\"""
_OFFLINE = "no GEMINI_API_KEY is set: serving the embedded offline demo model"


def welcome(active: ActiveSettings, host: str) -> str:
    server = active.settings.server
    command = _command()
    shown = "127.0.0.1" if server.host in ("0.0.0.0", "::") else host
    return _TEXT.format(
        address=f"http://{shown}:{server.port}",
        upstream=f"upstream: {active.home}" if active.home else _OFFLINE,
        access=active.access.replace("`gemini-bridge ", f"`{command} "),
        model=active.settings.model_for_clients,
        key=_KEY if active.needs_key else "",
        command=command,
    )


def _command() -> str:
    """The command as it can be typed in the current folder."""
    installed = Path(sys.executable).with_name("gemini-bridge")
    if not installed.exists() or shutil.which("gemini-bridge") == str(installed):
        return "gemini-bridge"
    try:
        return str(installed.relative_to(Path.cwd()))
    except ValueError:
        return str(installed)
