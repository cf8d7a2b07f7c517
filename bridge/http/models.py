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
from bridge.http.routes import json_response
from bridge.protocols.base import Protocol

PAUSE_AFTER_FAILURE = 10.0


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

    def all(self) -> dict[str, JsonObject]:
        # While one thread asks, the others are served the old list, if there is one.
        if self._clock() >= self._due and self._lock.acquire(blocking=not self._models):
            try:
                if self._clock() >= self._due:
                    self._fetch()
            finally:
                self._lock.release()
        return self._models

    def _fetch(self) -> None:
        try:
            listed = self._services.upstream.models()
        except UpstreamError:
            if not self._models:
                raise
            self._due = self._clock() + PAUSE_AFTER_FAILURE
            return
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


def make_models_blueprint(protocols: Sequence[Protocol], services: Services, lifetime: float) -> Blueprint:
    blueprint = Blueprint("models", __name__)
    models = ModelList(services, lifetime)

    def list_models() -> Response:
        protocol = spoken_protocol(protocols, request.path, request.headers)
        return json_response(protocol.list_models(list(models.all().values()), request.args))

    def show_model(name: str) -> Response:
        protocol = spoken_protocol(protocols, request.path, request.headers)
        model = models.all().get(name.removeprefix("models/"))
        if model is None:
            known = f"GET {protocol.models_path} lists them"
            raise UnknownModel(f"There is no model {name!r}; {known}", param="model")
        return json_response(protocol.show_model(model))

    for path in dict.fromkeys(protocol.models_path for protocol in protocols):
        blueprint.get(path)(list_models)
        blueprint.get(f"{path}/<path:name>")(show_model)
    return blueprint
