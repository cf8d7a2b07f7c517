"""Writes docs/SETTINGS.md from the sections of the settings and the comments in config/: `make diagrams`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from bridge.settings import SECTIONS
from bridge.settings.source import STATE_URL, variable_name

FOLDER = Path(__file__).parent
PAGE = FOLDER / "SETTINGS.md"
CONFIG = FOLDER.parent / "config"
#: The other files have rows; their first comment describes the columns. That of models.toml is in many parts.
NOT_OF_ROWS = frozenset(("default.toml", "local.toml", "guards.toml", "models.toml"))
#: Secrets with a well-known variable.
SECRETS = {"upstream.api_keys": "GEMINI_API_KEY", "state.url": STATE_URL}

HEAD = """# Settings

Written by `make diagrams` from `bridge/settings/` and the comments in `config/`.

There are four layers, and each overrides the one before: `config/default.toml`, your own
`config/local.toml`, environment variables `BRIDGE_SECTION__KEY`, and the well-known variables below. The
bridge refuses to start with an unknown setting or an invalid value, and names it. `make settings`
(`gemini-bridge settings`) prints the settings in force and the source of each; `gemini-bridge check` checks
them without starting.

## Well-known environment variables

| variable | meaning | default |
|---|---|---|
| `GEMINI_API_KEY` | the upstream key, or several separated by commas; a conversation always uses \
the same one | none: the demo model |
| `GOOGLE_GEMINI_BASE_URL` | the upstream's address | Google's |
| `USE_CCPA` | use Gemini CLI's Google login instead of a key | off |
| `GOOGLE_APPLICATION_CREDENTIALS`, `GOOGLE_CLOUD_PROJECT`, `GOOGLE_CLOUD_LOCATION` | for Vertex \
AI: key file, \
project and location | Google's default credentials, the project in the key file, `global` |
| `CODER_AGENT_PORT` | the port | 41242 |
| `DEFAULT_MODEL` | the model for names that match no entry | `gemini-flash-latest` |
| `DEBUG` | log every step of every conversion, prompts included | off |
| `BRIDGE_STATE_DIR` | the folder for the bridge's state | `state/` |
| `BRIDGE_CONFIG_DIR` | the folder of the settings files | `config/` |
"""


def page() -> str:
    comments = dict(_comments(CONFIG / "default.toml"))
    values = tomllib.loads((CONFIG / "default.toml").read_text("utf-8"))
    parts = [HEAD]
    for section, kind in SECTIONS.items():
        intro = comments.get((section, ""))
        parts += [f"## `[{section}]`\n", *([f"{intro}\n"] if intro else [])]
        parts += ["| setting | default | meaning |", "|---|---|---|"]
        for each in fields(kind):
            parts.append(_row(section, each.name, comments, values[section]))
        parts.append("")
    parts += _guards()
    for name in sorted({path.name for path in CONFIG.glob("*.toml")} - NOT_OF_ROWS):
        parts += [f"## Rows of `config/{name}`\n", "```text", *_first_comment(CONFIG / name), "```\n"]
    return "\n".join(parts).rstrip() + "\n"


def _row(section: str, name: str, comments: dict[tuple[str, str], str], values: dict[str, object]) -> str:
    if name in values:
        return f"| `{name}` | {_shown(values[name])} | {_cell(comments[section, name])} |"
    variable = SECRETS.get(f"{section}.{name}") or variable_name(f"{section}.{name}")
    return f"| `{name}` | none | A secret, in no file: `{variable}` in the environment. |"


def _guards() -> Iterator[str]:
    """The guards' settings of one value; their rules are rows."""
    yield "## The guards: `config/guards.toml`\n\n[GUARDS.md](GUARDS.md) explains them.\n"
    yield "| setting | default | meaning |\n|---|---|---|"
    values = tomllib.loads((CONFIG / "guards.toml").read_text("utf-8"))
    for (section, name), text in _comments(CONFIG / "guards.toml"):
        if name and section in values:
            yield f"| `{section}.{name}` | {_shown(values[section][name])} | {_cell(text)} |"
    yield ""


def _comments(path: Path) -> Iterator[tuple[tuple[str, str], str]]:
    """The comment above each setting, and with an empty name above each section."""
    section, words, in_rows = "", [], False
    for line in path.read_text("utf-8").split("\n"):
        if line.startswith("#"):
            words.append(line.removeprefix("#").strip())
            continue
        if line.startswith("["):
            section, in_rows = line.split("]")[0].strip("["), line.startswith("[[")
            if not in_rows:
                yield (section, ""), " ".join(words)
        elif "=" in line and not line.startswith((" ", '"')) and not in_rows:
            yield (section, line.split("=")[0].strip()), " ".join(words)
        words = []


def _first_comment(path: Path) -> Iterator[str]:
    for line in path.read_text("utf-8").split("\n"):
        if not line.startswith("#"):
            return
        yield line.removeprefix("#").removeprefix(" ")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list):
        return ", ".join(f"`{_cell(str(each))}`" for each in value) or "`[]`"
    return f"`{_cell(str(value))}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
