"""A client's key: who holds it, and what it is good for. The secret itself is not part of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from bridge.access.addresses import Address, Network, is_in_networks, networks
from bridge.errors import NotAllowed
from bridge.gemini.model_names import plain_name
from bridge.settings.limits import Limits
from bridge.settings.name_patterns import Patterns
from bridge.settings.value import AUTO

#: What may stand in a log line, a table and a message without harm.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
NAME_RULE = "1 to 64 letters, digits and . _ @ -, the first a letter or a digit"

LONGEST_OWNER = 200
LONGEST_SHOWN = 100  #: of a model name in a message; clients choose these


@dataclass(frozen=True, slots=True)
class Rules:
    """What an administrator decides about a key, and may change."""

    owner: str = ""
    models: tuple[str, ...] = ()  #: patterns; none: every model
    networks: tuple[str, ...] = ()  #: address ranges; none: from everywhere
    expires: float | None = None
    limits: Limits = field(default_factory=Limits)
    dialect: str = AUTO  #: of Responses; auto: by the marks of whoever uses the key


@dataclass(frozen=True)  # no slots: what is derived is worked out once
class Key:
    id: str  #: stays when the secret changes
    name: str
    rules: Rules
    created: float
    revoked: float | None = None

    @cached_property
    def _patterns(self) -> Patterns:
        return Patterns(self.rules.models)

    @cached_property
    def _exact_names(self) -> Patterns:
        return Patterns(pattern for pattern in self.rules.models if "*" not in pattern)

    @cached_property
    def _networks(self) -> tuple[Network, ...]:
        return networks(self.rules.networks)

    def expired(self, now: float) -> bool:
        return self.rules.expires is not None and self.rules.expires <= now

    def may_come_from(self, came_from: Address | None) -> bool:
        return not self.rules.networks or is_in_networks(came_from, self._networks)

    def may_use(self, name: str, model: str) -> bool:
        """`name` is the client's, `model` the one that serves. A client can make up a name that fits a
        pattern, so patterns with * are matched against the model alone."""
        if not self.rules.models:
            return True
        return self._patterns.match(plain_name(model)) or self._exact_names.match(plain_name(name))

    @property
    def _about_patterns(self) -> str:
        return " (* is matched against Gemini's names)" if "*" in "".join(self.rules.models) else ""

    def permit(self, name: str, model: str) -> None:
        if not self.may_use(name, model):
            shown = name[:LONGEST_SHOWN]
            served = "" if model == name else f" (here: {model[:LONGEST_SHOWN]})"
            raise NotAllowed(
                f"The key {self.name!r} may not use the model {shown!r}{served}; "
                f"it may use {', '.join(self.rules.models)}{self._about_patterns}",
                param="model",
                rule="key.models",
            )
