"""The settings of two more Google services that serve Gemini: Vertex AI and Code Assist."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from bridge.settings.value import AUTO, MatchesPattern, Secret, WebAddress, WebAddressOrAuto

Project = Annotated[str, MatchesPattern(r"[a-z0-9.:-]+", ": lower-case letters, digits and dashes")]
Location = Annotated[str, MatchesPattern(r"[a-z0-9-]+", ": lower-case letters, digits and dashes")]

CODE_ASSIST_ADDRESS = "https://cloudcode-pa.googleapis.com"


@dataclass(frozen=True, slots=True)
class VertexSettings:
    project: Project = AUTO
    location: Location = "global"
    base_url: Annotated[str, WebAddressOrAuto()] = AUTO
    credentials: Path = Path(AUTO)
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CodeAssistSettings:
    project: Project = AUTO
    base_url: Annotated[str, WebAddress()] = CODE_ASSIST_ADDRESS
    credentials: Path = Path("~/.gemini/oauth_creds.json")
    client_id: str = AUTO
    client_secret: Annotated[str, Secret()] = field(default="", repr=False)
    models: tuple[str, ...] = ()
