"""Lists the models in the format of each protocol: the upstream's models, aliases and agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from flask import Blueprint, Response, request

from bridge.errors import UnknownModel
from bridge.exchange.model_directory import ModelDirectory
from bridge.gemini.conversation import Session
from bridge.gemini.model_names import plain_name
from bridge.gemini.types import JsonObject
from bridge.ids_and_clock import IdsAndClock
from bridge.protocols.base import Protocol
from bridge.settings.routes import Target
from bridge.web.errors import protocol_of
from bridge.web.request import Request, current_request
from bridge.web.routes import json_response

if TYPE_CHECKING:
    from bridge.exchange.experiment_arms import Experiments, Reader

DAY = 86_400

ArmModels = Callable[[str], tuple[Target, ...]]


def no_arm(_name: str) -> tuple[Target, ...]:
    return ()


def _reader(request: Request) -> Reader:
    from bridge.exchange.experiment_arms import Reader  # imported already if there are experiments

    record, identity = request.record, request.identity
    session = Session(record.session, record.agent) if record.session else None
    return Reader(record.key or "", identity.owner, session, identity.may_use)


class ModelList:
    """The models that clients can list."""

    def __init__(
        self, directory: ModelDirectory, ids_and_clock: IdsAndClock, experiments: Experiments | None = None
    ) -> None:
        self._directory = directory
        self._experiments = experiments
        self._listed = directory.listed
        self._created = int(ids_and_clock.now()) // DAY * DAY  # the same in all workers

    def arms_for(self, request: Request | None) -> ArmModels:
        """Finds the models of the arm that an alias means for the sender of this request."""
        experiments = self._experiments
        if experiments is None:
            return no_arm
        reader = None if request is None else _reader(request)
        return lambda name: experiments.listed_models(name, reader)

    def all(self, arms: ArmModels) -> dict[str, JsonObject]:
        listed = self._listed.all()
        models: dict[str, JsonObject] = {
            name: {**self._described(name, listed), "id": name, "created": self._created}
            for name in listed
            if not self._directory.is_replaced(name)
        }
        for alias in self._other_names():
            served = self._described(self.resolve(alias, arms(alias)), listed)
            models.setdefault(alias, {**served, "id": alias, "created": self._created})
        return models

    def _other_names(self) -> Iterator[str]:
        """The names of aliases and of agents."""
        yield from (alias for alias, _ in self._directory.table.aliases)
        yield from self._directory.table.agents

    def _described(self, model: str, listed: Mapping[str, JsonObject]) -> JsonObject:
        """The model as Google describes it, with the limits of models.toml where Google names none."""
        capabilities = self._directory.table.capabilities(model)
        retirement = self._directory.table.lifecycle.row_of(model)
        known = {
            "retiresOn": retirement and retirement.since.isoformat(),
            "thinkingLevels": capabilities.thinking_levels,
            "name": f"models/{model}",
            "inputTokenLimit": capabilities.window,
            "outputTokenLimit": capabilities.output_limit,
        }
        return {**{name: value for name, value in known.items() if value}, **listed.get(model, {})}

    def chat_model_names(self) -> list[str]:
        """The upstream's chat models in the cached list. It does not wait for an upstream that is down."""
        listed = self._listed.at_hand()
        return [
            name
            for name, model in listed.items()
            if _is_chat_model(model) and not self._directory.is_replaced(name)
        ]

    def chat_models(self) -> list[JsonObject]:
        """The upstream's chat models, those of models.toml, aliases and agents, as Google describes them."""
        arms = self.arms_for(None)
        own = dict.fromkeys((*self._directory.table.targets, *self.chat_model_names()))
        served = {name: name for name in own} | {
            alias: self.resolve(alias, arms(alias)) for alias in self._other_names()
        }
        listed = self._listed.at_hand()
        return [{**self._described(model, listed), "id": name} for name, model in served.items()]

    @property
    def upstream_answered(self) -> bool:
        """Whether the upstream answered the last request for its list of models."""
        return self._listed.answered

    def resolve(self, name: str, instead: tuple[Target, ...] = ()) -> str:
        """The upstream's model for a client's name. `instead`: the models of an arm."""
        return self._directory.resolve(name, instead)

    def permission_name(self, name: str, instead: tuple[Target, ...] = ()) -> str:
        return self._directory.permission_name(name, instead)

    def find(self, name: str, arms: ArmModels) -> JsonObject | None:
        """One model, under the name in the request."""
        model = self.all(arms).get(plain_name(name))
        return model and {**model, "id": name.removeprefix("models/")}


def _is_chat_model(model: JsonObject) -> bool:
    return "generateContent" in model.get("supportedGenerationMethods", ("generateContent",))


def make_models_blueprint(protocols: Sequence[Protocol], models: ModelList) -> Blueprint:
    blueprint = Blueprint("models", __name__)

    def list_models() -> Response:
        protocol = protocol_of(protocols, request.path, request.headers)
        identity, arms = current_request().identity, models.arms_for(current_request())
        visible = [
            model
            for name, model in models.all(arms).items()
            if identity.may_use(name, models.permission_name(name, arms(name)))
        ]
        return json_response(protocol.list_models(visible, request.args))

    def show_model(name: str) -> Response:
        protocol = protocol_of(protocols, request.path, request.headers)
        arms = models.arms_for(current_request())
        current_request().identity.permit(name, models.permission_name(name, arms(name)))
        model = models.find(name, arms)
        if model is None:
            hint = f"GET {protocol.models_path} lists the models"
            raise UnknownModel(f"There is no model {name!r}; {hint}", param="model")
        return json_response(protocol.show_model(model))

    for path in dict.fromkeys(protocol.models_path for protocol in protocols):
        blueprint.get(path)(list_models)
        blueprint.get(f"{path}/<path:name>")(show_model)
    return blueprint
