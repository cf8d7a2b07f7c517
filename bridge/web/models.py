"""The models, where each protocol looks for them: what the upstream has, and the names we give it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flask import Blueprint, Response, request

from bridge.errors import UnknownModel
from bridge.exchange.model_directory import ModelDirectory
from bridge.gemini.model_names import plain_name
from bridge.gemini.types import JsonObject
from bridge.ids_and_clock import IdsAndClock
from bridge.protocols.base import Protocol
from bridge.web.errors import spoken_protocol
from bridge.web.request import current_request
from bridge.web.routes import json_response

DAY = 86_400


class ModelList:
    """What clients are shown."""

    def __init__(self, directory: ModelDirectory, ids_and_clock: IdsAndClock) -> None:
        self._directory = directory
        self._listed = directory.listed
        self._created = int(ids_and_clock.now()) // DAY * DAY  # the same in all workers

    def all(self) -> dict[str, JsonObject]:
        listed = self._listed.all()
        models: dict[str, JsonObject] = {
            name: {**self._described(name, listed), "id": name, "created": self._created}
            for name in listed
            if not self._directory.is_replaced(name)
        }
        for alias, _ in self._directory.table.aliases:
            served = self._described(self.meant(alias), listed)
            models.setdefault(alias, {**served, "id": alias, "created": self._created})
        return models

    def _described(self, model: str, listed: Mapping[str, JsonObject]) -> JsonObject:
        """As Google lists it; a model that it does not list has at least the limits that the table knows."""
        capabilities = self._directory.table.capabilities(model)
        known = {
            "name": f"models/{model}",
            "inputTokenLimit": capabilities.window,
            "outputTokenLimit": capabilities.output_limit,
        }
        return {**{name: value for name, value in known.items() if value}, **listed.get(model, {})}

    def offered(self) -> list[str]:
        """The upstream's names for models that converse, as far as they are at hand: whoever only wants to
        look does not wait for an upstream that is down."""
        listed = self._listed.at_hand()
        return [
            name
            for name, model in listed.items()
            if _converses(model) and not self._directory.is_replaced(name)
        ]

    def conversing(self) -> list[JsonObject]:
        """These models, those that the table names, and our names for them, each as Google describes it."""
        own = dict.fromkeys((*self._directory.table.targets, *self.offered()))
        served = {name: name for name in own} | {
            alias: self.meant(alias) for alias, _ in self._directory.table.aliases
        }
        listed = self._listed.at_hand()
        return [{**self._described(model, listed), "id": name} for name, model in served.items()]

    @property
    def answered(self) -> bool:
        """Whether the upstream did, when it was last asked for its list."""
        return self._listed.answered

    def meant(self, name: str) -> str:
        """The upstream's model behind a client's name."""
        return self._directory.resolve(name)

    def shown(self, name: str) -> JsonObject | None:
        """One model, under the name that it was asked for by."""
        model = self.all().get(plain_name(name))
        return model and {**model, "id": name.removeprefix("models/")}


def _converses(model: JsonObject) -> bool:
    return "generateContent" in model.get("supportedGenerationMethods", ("generateContent",))


def make_models_blueprint(protocols: Sequence[Protocol], models: ModelList) -> Blueprint:
    blueprint = Blueprint("models", __name__)

    def list_models() -> Response:
        protocol = spoken_protocol(protocols, request.path, request.headers)
        identity = current_request().identity
        visible = [
            model for name, model in models.all().items() if identity.may_use(name, models.meant(name))
        ]
        return json_response(protocol.list_models(visible, request.args))

    def show_model(name: str) -> Response:
        protocol = spoken_protocol(protocols, request.path, request.headers)
        current_request().identity.permit(name, models.meant(name))
        model = models.shown(name)
        if model is None:
            known = f"GET {protocol.models_path} lists them"
            raise UnknownModel(f"There is no model {name!r}; {known}", param="model")
        return json_response(protocol.show_model(model))

    for path in dict.fromkeys(protocol.models_path for protocol in protocols):
        blueprint.get(path)(list_models)
        blueprint.get(f"{path}/<path:name>")(show_model)
    return blueprint
