"""The page at `/`: what connects people's tools, as HTML.

It is whole as it leaves the bridge: nothing is fetched from elsewhere, and its policy lets a browser run only
what stands in it. It shows nothing that a visitor may not know: no key, and nothing of other users.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

from flask import Response, render_template
from markupsafe import Markup

from bridge import __version__
from bridge.connect.clients import CLIENTS, KINDS, PLACEHOLDER_KEY, ClientGuide, Piece, Target
from bridge.connect.protocol_clients import PROTOCOL_CLIENTS
from bridge.settings import DEMO, Settings
from bridge.web.models import ModelList

#: Names shown at once; the others unfold.
MODELS_SHOWN = 12


@dataclass(frozen=True, slots=True)
class ShownSnippet:
    place: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class ShownClient:
    name: str
    title: str
    protocol: str
    notes: tuple[str, ...]
    snippets: tuple[ShownSnippet, ...]


@dataclass(frozen=True, slots=True)
class ClientGroup:
    title: str
    clients: tuple[ShownClient, ...]


@dataclass(frozen=True, slots=True)
class PageState:
    words: str
    mood: str  #: good or fair


def _groups(target: Target) -> list[ClientGroup]:
    return [
        ClientGroup(
            title, tuple(_shown(client, target) for client in CLIENTS.values() if client.kind == kind)
        )
        for kind, title in KINDS.items()
    ]


def _shown(client: ClientGuide, target: Target) -> ShownClient:
    snippets = tuple(ShownSnippet(each.place, tuple(each.pieces(target))) for each in client.snippets)
    return ShownClient(
        client.name, client.title, PROTOCOL_CLIENTS[client.speaks].title, client.notes, snippets
    )


class FrontPage:
    def __init__(self, settings: Settings, models: ModelList) -> None:
        self._settings = settings
        self._models = models
        self._style = _part("front.css") + _chosen_marks()
        self._script = _part("front.js")
        self._icon = _part("icon.svg").strip()
        self._headers = {
            "Content-Security-Policy": _policy(self._style, self._script),
            "Cache-Control": "no-store",  # it depends on the Host it was asked by
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }

    def response(self, address: str) -> Response:
        settings = self._settings
        names = self._models.offered()
        model = settings.model_for_clients
        html = render_template(
            "front.html",
            address=address,
            groups=_groups(Target(address, PLACEHOLDER_KEY, model)),
            placeholder=PLACEHOLDER_KEY,
            help=settings.connect.help,
            model=model,
            choices=list(dict.fromkeys((model, *names))),
            models=names,
            shown=MODELS_SHOWN,
            aliases=settings.models.aliases,
            default=settings.models.default,
            demo=settings.transport_in_force == DEMO,
            state=self._state(names),
            version=__version__,
            style=Markup(self._style),
            script=Markup(self._script),
            icon=Markup(self._icon),
            hangers=_HANGERS,
        )
        return Response(html, content_type="text/html; charset=utf-8", headers=self._headers)

    def _state(self, names: list[str]) -> PageState:
        if self._settings.transport_in_force == DEMO:
            return PageState("Demo model", "fair")
        if not names or not self._models.answered:
            return PageState("Gemini does not answer", "fair")
        return PageState("Ready", "good")


# --- what it is made of ------------------------------------------------------------------------------


def _part(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _chosen_marks() -> str:
    """The chosen client stands out in the list, script or not."""
    chosen = [f'body:has(#{name}:target) nav a[href="#{name}"]' for name in CLIENTS]
    first = f'body:not(:has(.client:target)) nav a[href="#{next(iter(CLIENTS))}"]'
    rule = "background: var(--wash); color: var(--accent); font-weight: 600;"
    return f"{', '.join((first, *chosen))} {{ {rule} }}\n"


def _cable(x: int) -> float:
    """The height of the drawing's main cable, which hangs from 16 at 300 to 93 in the middle and up again."""
    t = (x - 300) / 600
    return 16 * (1 - t) ** 2 + 2 * 170 * t * (1 - t) + 16 * t**2


_HANGERS = "".join(f"M{x} {_cable(x):.0f}V100" for x in range(330, 900, 30))
