"""Says in words what failed and what its owner can do about it, for each kind of error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Advice(NamedTuple):
    what: str
    remedy: str


_AGAIN = "Nothing to do: the bridge tried again by itself, and the next request probably works."
_OPERATOR = "Tell the administrator of the bridge; its log has the details."

ADVICE: Mapping[str, Advice] = {
    "invalid_request": Advice(
        "The request was not valid.", "The error names the field. Check the settings of the client."
    ),
    "context_overflow": Advice(
        "The conversation was longer than the window of the model.",
        "Let the client compact it (/compact), begin a new one, or use a model with a larger window.",
    ),
    "unknown_previous": Advice(
        "The answer to continue is not stored here, or no longer.", "Send the whole conversation again."
    ),
    "too_large": Advice("The request was too large.", "Send fewer or smaller files."),
    "unauthorized": Advice("The key was not valid.", "Check the key in the settings of the client."),
    "forbidden": Advice(
        "The key may not do this, such as use this model.",
        "Use a model that the key allows, or ask the administrator.",
    ),
    "limited": Advice(
        "A limit for requests, tokens or running answers was reached.",
        "The client tries again by itself. If it happens often, ask the administrator for more.",
    ),
    "budget_spent": Advice(
        "The budget of the day was used up.", "It begins anew at 0:00 UTC, or the administrator can raise it."
    ),
    "slow_request": Advice(
        "The client took too long to send its request.", "Check the network between client and bridge."
    ),
    "client_left": Advice(
        "The client closed the connection before the answer was complete.",
        "Nothing to do if you cancelled. Otherwise raise the time limit of the client.",
    ),
    "unknown_route": Advice("The address is not served.", "Check the base URL of the client."),
    "unknown_model": Advice("The model does not exist.", "Choose a name from the list of models."),
    "unknown_answer": Advice("The stored answer does not exist, or no longer.", "Ask again."),
    "method": Advice("The method is not served.", "Check the client, or its version."),
    "upgrade": Advice(
        "The client wanted a WebSocket.", "Set the client to plain HTTP; most of them do so by themselves."
    ),
    "busy": Advice("The bridge had no free slot.", "Try again. If it happens often, tell the administrator."),
    "shutting_down": Advice("The bridge was restarted.", "Send the request again."),
    "refused": Advice(
        "The model refused the request.", "The error says why: often a setting or a file it does not take."
    ),
    "misconfigured": Advice("The bridge is not accepted by the model's provider.", _OPERATOR),
    "rate_limited": Advice(
        "The quota of the bridge at the model's provider was used up. It is not your budget.",
        "Wait a minute, or use another model. If it lasts, tell the administrator.",
    ),
    "overloaded": Advice("The model was overloaded.", _AGAIN),
    "timeout": Advice("The model did not answer in time.", _AGAIN),
    "unreachable": Advice("The model could not be reached.", _AGAIN),
    "truncated": Advice("The answer broke off.", _AGAIN),
    "malformed": Advice("The answer of the model could not be used.", _AGAIN),
    "internal": Advice("The bridge made a mistake.", _OPERATOR),
    "key.models": Advice(
        "The key may not use this model.", "Use a model that the key allows, or ask the administrator."
    ),
    "limits.unpriced": Advice(
        "The model has no price, so it cannot be counted towards a cost limit.",
        "Use another model, or ask the administrator to add a price.",
    ),
}

#: The names of limits behind `key.` and `limits.`, and the kind of error that each causes.
_LIMITS = {
    "requests_per_minute": "limited",
    "tokens_per_minute": "limited",
    "streams": "limited",
    "tokens_per_day": "budget_spent",
    "cost_per_day": "budget_spent",
}
_UNKNOWN = Advice("The request failed.", _OPERATOR)


def advice(reason: str) -> Advice:
    """`reason` is the kind of an error, or the rule that refused the request."""
    if reason in ADVICE:
        return ADVICE[reason]
    return ADVICE.get(_LIMITS.get(reason.partition(".")[2], ""), _UNKNOWN)
