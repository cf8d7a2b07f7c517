"""The models, where each protocol looks for them: what the upstream has, and the names we give it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from flask import Blueprint, Response, request

from bridge.errors import UnknownModel, UpstreamError
from bridge.exchange import Services
from bridge.gemini.types import JsonObject
from bridge.http.errors import spoken_protocol
from bridge.http.request import current_request
from bridge.http.routes import json_response
from bridge.protocols.base import Protocol

PAUSE_AFTER_FAILURE = 10.0
PATIENCE_OF_A_VISITOR = 1.0


class ModelList:
    """The upstream's list, asked for again when it is old; an old one is better than none."""

    def __init__(
        self, services: Services, lifetime: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._services = services
        self._lifetime = lifetime
        self._clock = clock
        self._lock = threading.Lock()
        self._models: dict[str, JsonObject] = {}
        self._due = clock()
        self.answered = False  #: whether the upstream did, when it was last asked

    def all(self) -> dict[str, JsonObject]:
        # While one thread asks, the others are served the old list, if there is one.
        if self._clock() >= self._due and self._lock.acquire(blocking=not self._models):
            try:
                if self._clock() >= self._due:
                    self._fetch()
            finally:
                self._lock.release()
        return self._models

    def offered(self) -> list[str]:
        """The upstream's names for models that converse, as far as they are at hand: whoever only wants to
        look does not wait for an upstream that is down."""
        if self._clock() >= self._due:
            asking = threading.Thread(target=self._try_to_fetch, daemon=True)
            asking.start()
            asking.join(PATIENCE_OF_A_VISITOR)
        aliases = {alias for alias, _ in self._services.models.aliases}
        return [name for name, model in self._models.items() if name not in aliases and _converses(model)]

    def _try_to_fetch(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                self._fetch()
            except UpstreamError:
                pass  # `answered` tells
            finally:
                self._lock.release()

    def meant(self, name: str) -> str:
        """The upstream's model behind a client's name."""
        return self._services.models.resolve(name)

    def _fetch(self) -> None:
        try:
            listed = self._services.upstream.models()
        except UpstreamError:
            self.answered = False
            if not self._models:
                raise
            self._due = self._clock() + PAUSE_AFTER_FAILURE
            return
        self.answered = True
        self._models = self._described(listed)
        self._due = self._clock() + self._lifetime

    def _described(self, listed: Sequence[JsonObject]) -> dict[str, JsonObject]:
        created = int(self._services.stamp.now())
        models: dict[str, JsonObject] = {}
        for model in listed:
            name = str(model.get("name", "")).removeprefix("models/")
            models[name] = {**model, "id": name, "created": created}
        for alias, target in self._services.models.aliases:
            models.setdefault(alias, {**models.get(target, {}), "id": alias, "created": created})
        return models


def _converses(model: JsonObject) -> bool:
    return "generateContent" in model.get("supportedGenerationMethods", ("generateContent",))


def make_models_blueprint(protocols: Sequence[Protocol], models: ModelList) -> Blueprint:
    blueprint = Blueprint("models", __name__)

    def list_models() -> Response:
        protocol = spoken_protocol(protocols, request.path, request.headers)
        visit = current_request().visit
        visible = [model for name, model in models.all().items() if visit.may_use(name, models.meant(name))]
        return json_response(protocol.list_models(visible, request.args))

    def show_model(name: str) -> Response:
        protocol = spoken_protocol(protocols, request.path, request.headers)
        current_request().visit.permit(name, models.meant(name))
        model = models.all().get(name.removeprefix("models/"))
        if model is None:
            known = f"GET {protocol.models_path} lists them"
            raise UnknownModel(f"There is no model {name!r}; {known}", param="model")
        return json_response(protocol.show_model(model))

    for path in dict.fromkeys(protocol.models_path for protocol in protocols):
        blueprint.get(path)(list_models)
        blueprint.get(f"{path}/<path:name>")(show_model)
    return blueprint
