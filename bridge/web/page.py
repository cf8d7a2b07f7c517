"""The HTML page at `/` with the settings for clients.

The page is self-contained: it loads nothing else, and its Content-Security-Policy allows only its own script
and style. It shows no secrets: no keys and no data of other users.
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

#: Number of model names that are always visible; the others can be expanded.
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
    text: str
    level: str  #: good or fair; a CSS class


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
        self._style = asset("front.css") + _selection_style()
        self._script = asset("front.js")
        self._icon = asset("icon.svg").strip()
        self._headers = {
            "Content-Security-Policy": policy(self._style, self._script),
            "Cache-Control": "no-store",  # the page depends on the Host header
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }

    def response(self, address: str, *, shows_account: bool) -> Response:
        """`shows_account`: whether the visitor can open the page /me."""
        settings = self._settings
        names = self._models.chat_model_names()
        model = settings.model_for_clients
        html = render_template(
            "front.html",
            address=address,
            shows_account=shows_account,
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
        if not names or not self._models.upstream_answered:
            return PageState("Gemini does not answer", "fair")
        return PageState("Ready", "good")


# --- assets ------------------------------------------------------------------------------------------


def asset(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text("utf-8")


def policy(style: str, script: str | None = None, *, forms: bool = False) -> str:
    scripts = "" if script is None else f"script-src {_hash(script)}; "
    form_action = "'self'" if forms else "'none'"
    return (
        f"default-src 'none'; style-src {_hash(style)}; {scripts}img-src data:; "
        f"base-uri 'none'; form-action {form_action}; frame-ancestors 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _selection_style() -> str:
    """CSS that highlights the selected client in the list, also without JavaScript."""
    chosen = [f'body:has(#{name}:target) nav a[href="#{name}"]' for name in CLIENTS]
    first = f'body:not(:has(.client:target)) nav a[href="#{next(iter(CLIENTS))}"]'
    rule = "background: var(--wash); color: var(--accent); font-weight: 600;"
    return f"{', '.join((first, *chosen))} {{ {rule} }}\n"


def _cable(x: int) -> float:
    """The height of the main cable in the drawing: 16 at the towers, 93 in the middle."""
    t = (x - 300) / 600
    return 16 * (1 - t) ** 2 + 2 * 170 * t * (1 - t) + 16 * t**2


_HANGERS = "".join(f"M{x} {_cable(x):.0f}V100" for x in range(330, 900, 30))
