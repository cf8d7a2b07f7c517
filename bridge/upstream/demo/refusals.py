"""Google's error envelopes with Google's texts, because gateways parse these texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from bridge.gemini.types import JsonObject
from bridge.upstream.demo.script import Reply

_RPC = "type.googleapis.com/google.rpc."
_QUOTA_HELP = "https://ai.google.dev/gemini-api/docs/rate-limits"
_REQUESTS = "generativelanguage.googleapis.com/generate_content_free_tier_requests"


@dataclass(frozen=True, slots=True)
class DemoRefusal:
    code: int
    status: str
    message: str
    details: tuple[JsonObject, ...] = ()

    def envelope(self) -> JsonObject:
        fields: dict[str, Any] = {"code": self.code, "message": self.message, "status": self.status}
        if self.details:
            fields["details"] = list(self.details)
        return {"error": fields}

    def body(self) -> bytes:
        return orjson.dumps(self.envelope(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    def reply(self) -> Reply:
        return Reply(self.code, iter([self.body()]))


def _detail(kind: str, **fields: Any) -> JsonObject:
    return {"@type": _RPC + kind, **fields}


def _exhausted(quota: str, limit: int, delay: str) -> DemoRefusal:
    return DemoRefusal(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details. "
        f"For more information on this error, head to: {_QUOTA_HELP}.\n"
        f"* Quota exceeded for metric: {_REQUESTS}, limit: {limit}\nPlease retry in {delay}.",
        (
            _detail(
                "QuotaFailure",
                violations=[{"quotaMetric": _REQUESTS, "quotaId": quota, "quotaValue": str(limit)}],
            ),
            _detail(
                "Help", links=[{"description": "Learn more about Gemini API quotas", "url": _QUOTA_HELP}]
            ),
            _detail("RetryInfo", retryDelay=delay),
        ),
    )


def invalid(message: str) -> DemoRefusal:
    return DemoRefusal(400, "INVALID_ARGUMENT", message)


def unknown_model(model: str) -> DemoRefusal:
    return DemoRefusal(
        404,
        "NOT_FOUND",
        f"models/{model} is not found for API version v1beta, or is not supported for generateContent. "
        "Call ListModels to see the list of available models and their supported methods.",
    )


BUSY_MINUTE = _exhausted("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", 10, "7s")
SPENT_DAY = _exhausted("GenerateRequestsPerDayPerProjectPerModel-FreeTier", 50, "34.074824224s")
INTERNAL = DemoRefusal(
    500,
    "INTERNAL",
    "An internal error has occurred. Please retry or report in "
    "https://developers.generativeai.google/guide/troubleshooting",
)
OVERLOADED = DemoRefusal(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")
LATE = DemoRefusal(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete.")
INVALID = invalid("Request contains an invalid argument.")
FORBIDDEN = DemoRefusal(403, "PERMISSION_DENIED", "The caller does not have permission")
TOO_LONG = invalid("The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).")
BAD_KEY = DemoRefusal(
    400,
    "INVALID_ARGUMENT",
    "API key not valid. Please pass a valid API key.",
    (
        _detail(
            "ErrorInfo",
            reason="API_KEY_INVALID",
            domain="googleapis.com",
            metadata={"service": "generativelanguage.googleapis.com"},
        ),
    ),
)
