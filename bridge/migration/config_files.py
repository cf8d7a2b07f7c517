"""The files of a configuration folder, written from translated rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bridge.migration.litellm import Translated
from bridge.settings import SettingsError

WRITTEN = "# Written by `gemini-bridge import litellm`. default.toml describes all settings.\n"
#: models.toml of this version describes the capabilities of the models below this heading.
CAPABILITIES = "# --- Capabilities of Gemini models"


def files(translated: Translated, shipped: Path) -> dict[str, str]:
    """The text of each file. `shipped` is the folder of the settings of this version."""
    return {
        "models.toml": _models(translated, (shipped / "models.toml").read_text("utf-8")),
        "upstreams.toml": WRITTEN + "".join(_rows("upstream", translated.upstreams)),
        "local.toml": WRITTEN + "".join(_sections(translated.local)),
    }


def write(folder: Path, texts: Mapping[str, str], shipped: Path) -> None:
    """Write the files, and copy the others of a complete folder. No file is overwritten."""
    others = (path for path in shipped.glob("*.toml") if path.name not in texts)
    everything = {path.name: path.read_text("utf-8") for path in others}
    if present := [name for name in texts if (folder / name).exists()]:
        raise SettingsError(f"--to: {folder} already has {', '.join(present)}; name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in {**everything, **texts}.items():
            if not (folder / name).exists():
                (folder / name).write_text(text, "utf-8")
    except OSError as error:
        raise SettingsError(f"--to: {folder} cannot be written: {error.strerror}") from None


def _models(translated: Translated, shipped: str) -> str:
    if not translated.aliases:
        raise SettingsError("no chat model of the file can be carried, so there is nothing to write")
    first = translated.aliases[0]
    default = f"{first['upstream']}:{first['model']}" if "upstream" in first else first["model"]
    _, heading, capabilities = shipped.partition(CAPABILITIES)
    return (
        f"{WRITTEN}\n# The model for names that match no row below.\ndefault = {_value(default)}\n\n"
        + "".join(_rows("alias", translated.aliases))
        + "".join(_rows("embedding", translated.embeddings))
        + heading
        + capabilities
    )


def _rows(name: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield f"[[{name}]]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in row.items()) + "\n"


def _sections(sections: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, values in sections.items():
        yield f"\n[{name}]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in values.items())


def _value(value: Any) -> str:
    """Texts, numbers, and lists of texts are written in TOML as in JSON, apart from one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
