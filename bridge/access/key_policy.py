"""What a key permits: addresses and models. The values of a key are in `bridge/state/key_store.py`."""

from __future__ import annotations

import re
from functools import lru_cache

from bridge.access.addresses import Address, Network, is_in_networks, networks
from bridge.errors import NotAllowed
from bridge.gemini.model_names import plain_name
from bridge.settings.name_patterns import Patterns
from bridge.state.key_store import Key

#: Characters that do no harm in a log line, a table and a message.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
NAME_RULE = "1 to 64 letters, digits and . _ @ -, the first a letter or a digit"

LONGEST_OWNER = 200
LONGEST_SHOWN = 100  #: of a model name in a message, since clients choose these names

#: Compiled rules are kept for this many keys.
MOST_COMPILED = 4096


@lru_cache(MOST_COMPILED)
def _patterns(models: tuple[str, ...]) -> Patterns:
    return Patterns(models)


@lru_cache(MOST_COMPILED)
def _exact_names(models: tuple[str, ...]) -> Patterns:
    return Patterns(pattern for pattern in models if "*" not in pattern)


@lru_cache(MOST_COMPILED)
def _networks(ranges: tuple[str, ...]) -> tuple[Network, ...]:
    return networks(ranges)


def may_come_from(key: Key, client: Address | None) -> bool:
    """Whether the key may be used from this address. `None` is an unknown address."""
    ranges = key.rules.networks
    return not ranges or is_in_networks(client, _networks(ranges))


def may_use(key: Key, name: str, model: str) -> bool:
    """`name` is the client's name, `model` the model that serves it. A client could invent a name that
    matches a pattern, so patterns with * are compared with the model only."""
    models = key.rules.models
    if not models:
        return True
    return _patterns(models).match(plain_name(model)) or _exact_names(models).match(plain_name(name))


def permit(key: Key, name: str, model: str) -> None:
    """Raises NotAllowed if the key may not use the model."""
    if may_use(key, name, model):
        return
    shown = name[:LONGEST_SHOWN]
    served = "" if model == name else f" (here: {model[:LONGEST_SHOWN]})"
    about_patterns = " (* is matched against Gemini's names)" if "*" in "".join(key.rules.models) else ""
    raise NotAllowed(
        f"The key {key.name!r} may not use the model {shown!r}{served}; "
        f"it may use {', '.join(key.rules.models)}{about_patterns}",
        param="model",
        rule="key.models",
    )
