"""The request headers that a flight may contain. Every other header stays out, whatever it is called."""

from __future__ import annotations

from collections.abc import Mapping

#: Those that decide how a request is converted, or that tell programs and their versions apart.
RECORDED_HEADERS = (
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "cache-control",
    "content-type",
    "openai-beta",
    "originator",
    "user-agent",
    "x-app",
    "x-bridge-cache",
    "x-bridge-context",
    "x-bridge-dialect",
    "x-bridge-record",
    "x-bridge-strict",
)
#: The same for parameters of the query.
RECORDED_PARAMETERS = ("alt",)


def recorded(values: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: values[name] for name in names if name in values}
