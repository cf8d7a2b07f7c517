"""Converts Google's error envelope to the bridge's own errors.

The envelope is `{"error": …}`, alone or in a one-element array, as the body of an HTTP error or in the
middle of a stream; a proxy may answer with any other body. Only Google's message is passed on, without keys
and project numbers. This module uses no HTTP library.
https://ai.google.dev/gemini-api/docs/troubleshooting
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from bridge.errors import (
    LONGEST_RETRY_AFTER,
    BridgeError,
    ContextOverflow,
    RequestTooLarge,
    SamplingRefused,
    SchemaRefused,
    ServiceTierRefused,
    SignaturesRefused,
    StoreRefused,
    StrictCallsRefused,
    ThinkingRefused,
    ToolCombinationRefused,
    UnknownModel,
    UpstreamMalformed,
    UpstreamMisconfigured,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from bridge.gemini.types import JsonObject
from bridge.upstream.overflow import Overflow, overflow_in
from bridge.upstream.transport.exception_map import GEMINI

#: google.rpc.Code and its HTTP status. In a stream only the name of the code is reliable.
HTTP_STATUS = {
    "CANCELLED": 499,
    "UNKNOWN": 500,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "PERMISSION_DENIED": 403,
    "UNAUTHENTICATED": 401,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400,
    "ABORTED": 409,
    "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DATA_LOSS": 500,
}

ADMINISTRATOR = "Only the administrator of the bridge can fix that."
LONGEST_MESSAGE = 2000
LONGEST_DELAY = 86_400.0

_SECRETS = (
    (re.compile(r"\b(?:AIza|AQ\.|ya29\.)[\w-]{20,}"), "[key]"),
    (re.compile(r"(?i)\bkey=[^\s&\"']+"), "key=[key]"),
    (re.compile(r"(?i)\b(projects?[ /=:#]+)\d+"), r"\1[project]"),
    (re.compile(r'"([^"]{80})[^"]+"'), r'"\1…"'),  # Google quotes the invalid value in full length
)
_BAD_KEY = re.compile(r"(?i)api[ _]key (?:not valid|invalid|expired|not found|was reported)")
_FOREIGN_RESOURCE = re.compile(r"(?i)access the file|not in an active state|cachedcontent not found")
_PAYLOAD_SIZE = re.compile(r"(?i)request payload size exceeds")
_RETRY_TEXT = re.compile(r"(?i)please retry in ((?:[0-9.]+(?:ms|h|m|s))+)")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
#: Errors after which the bridge repairs the request and sends it again.
_REPAIRABLE = (
    (re.compile(r"(?i)thought[ _]signature"), SignaturesRefused),
    (
        re.compile(
            r"(?i)thinking[ _]?(?:config|level|budget)|\bthinking (?:is|are) not\b|does not support thinking"
            r"|\b(?:reasoning_effort|chat_template_kwargs|enable_thinking)\b"
        ),
        ThinkingRefused,
    ),
    (re.compile(r"(?i)service[ _]?tier|\b(?:flex|priority) (?:api|inference|tier)\b"), ServiceTierRefused),
    (re.compile(r"(?i)unknown name \W*store\b|\bstore\b.{0,40}not supported"), StoreRefused),
    (
        re.compile(
            r"(?i)\b(?:temperature|top_?[pk]|(?:presence|frequency)_?penalty)\b.{0,60}"
            r"(?:not supported|unsupported|deprecated|cannot be set|not allowed)"
            r"|unsupported (?:parameter|value)\W{1,4}(?:temperature|top_[pk]|\w{8,9}_penalty)\b"
        ),
        SamplingRefused,
    ),
    (
        re.compile(
            r"(?i)tool use with function calling|server_?side_?tool_?invocations"
            r"|built-?in tools?\b.{0,40}function calling"
        ),
        ToolCombinationRefused,
    ),
    (re.compile(r"(?i)\bvalidated\b|function_?calling_?config\.mode\b"), StrictCallsRefused),
    (
        re.compile(
            r"(?i)function_?declarations?|parameters_?json_?schema|too many states|nesting depth"
            r"|\bschema\b|\.parameters\b"
        ),
        SchemaRefused,
    ),
)
_QUOTATION = re.compile(r"\"[^\"]*\"|(?<!\w)'[^']*'|`[^`]*`|“[^”]*”")
_LONG_QUOTA = re.compile(r"(?i)perday|daily")


def mask(text: str) -> str:
    """The text without strings that look like keys, project numbers or long quotations."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text if len(text) <= LONGEST_MESSAGE else text[: LONGEST_MESSAGE - 1] + "…"


@dataclass(frozen=True, slots=True)
class Report:
    """The readable fields of an error."""

    code: int
    status: str
    text: str
    details: tuple[JsonObject, ...] = ()
    server: str = GEMINI
    delay: float | None = None  #: seconds until a retry, from the response's header

    @property
    def heading(self) -> str:
        return f"{self.code} {self.status}".rstrip()

    @property
    def message(self) -> str:
        return f"{self.server} answered {self.heading}" + (f": {self.text}" if self.text else "")

    @property
    def logged(self) -> str:
        """For the log, which needs Google's message only for errors about the key or the project."""
        about_credentials = self.code in (401, 402, 403, 407) or self.status == "FAILED_PRECONDITION"
        status = self.status if self.status in HTTP_STATUS else ""
        message = f": {_QUOTATION.sub('…', self.text)}" if about_credentials and self.text else ""
        return f"{self.server} answered {self.code} {status}".rstrip() + message

    @property
    def reasons(self) -> list[str]:
        return [detail["reason"] for detail in self.details if isinstance(detail.get("reason"), str)]

    @property
    def retry_after(self) -> float | None:
        for detail in self.details:
            if (delay := _seconds(detail.get("retryDelay"))) is not None:
                return delay
        found = _RETRY_TEXT.search(self.text)
        return _seconds(found[1]) if found else self.delay

    def quotas(self) -> Iterator[str]:
        for detail in self.details:
            violations = detail.get("violations")
            for violation in violations if isinstance(violations, list) else ():
                yield str(violation.get("quotaId")) if isinstance(violation, dict) else ""


def error_from_response(status: int, body: bytes, model: str, delay: float | None = None) -> BridgeError:
    """The error for an HTTP response with another status than 200; `delay` is its retry-after."""
    return classify(_report(_envelope(body), status, delay), model)


def error_from_payload(payload: JsonObject, model: str) -> BridgeError:
    """The error for `{"error": …}` in the middle of a stream, whose HTTP status was 200."""
    envelope = payload.get("error")
    fields = envelope if isinstance(envelope, dict) else {}
    code = fields.get("code")
    fallback = code if isinstance(code, int) and code >= 400 else 500
    return classify(_report(envelope, HTTP_STATUS.get(_string(fields, "status"), fallback)), model)


def _envelope(body: bytes) -> Any:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if isinstance(document, list) and document:
        document = document[0]
    return document.get("error") if isinstance(document, dict) else None


def _report(envelope: Any, code: int, delay: float | None = None) -> Report:
    if isinstance(envelope, str):
        envelope = {"message": envelope}
    fields = envelope if isinstance(envelope, dict) else {}
    details = fields.get("details")
    return Report(
        code,
        mask(_string(fields, "status"))[:40],
        mask(_string(fields, "message").strip()),
        tuple(item for item in details if isinstance(item, dict)) if isinstance(details, list) else (),
        delay=delay,
    )


def _string(fields: JsonObject, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _seconds(duration: Any) -> float | None:
    """Parses durations in protobuf's and in Go's format: `34.07s`, `900ms`, `6h27m36.8s`."""
    parts = _DURATION.findall(duration) if isinstance(duration, str) else []
    if not parts:
        return None
    return min(sum(float(amount) * _SECONDS[unit] for amount, unit in parts), LONGEST_DELAY)


# --- one function per kind of error ------------------------------------------------------------------


def classify(report: Report, model: str) -> BridgeError:
    error = _error_for(report, model)
    if report.text and report.text.rstrip(".") in error.message:
        error.logged = report.logged
    return error


def _error_for(report: Report, model: str) -> BridgeError:
    if (build := _BY_CODE.get(report.code)) is not None:
        return build(report, model)
    if report.code >= 499:
        return UpstreamUnreachable(report.message, retry_after=report.retry_after)
    if report.code >= 400:
        return _refused(report, model)
    return UpstreamMalformed(report.message)


def _bad_request(report: Report, model: str) -> BridgeError:
    if _is_about_the_key(report):
        return _bad_key(report)
    if report.status == "FAILED_PRECONDITION":
        return _forbidden(report, model)
    if _PAYLOAD_SIZE.search(report.text):
        return _too_large(report, model)
    if (overflow := overflow_in(report.text)) is not None:
        return _overflow(report, overflow)
    return _refused(report, model)


def _overflow(report: Report, found: Overflow) -> ContextOverflow:
    error = ContextOverflow(report.text)
    error.tokens, error.limit = found
    return error


def _refused(report: Report, _model: str) -> BridgeError:
    kind = next((kind for pattern, kind in _REPAIRABLE if pattern.search(report.text)), UpstreamRefused)
    return kind(report.text or f"{report.server} refused the request ({report.heading}) without a reason.")


def _is_about_the_key(report: Report) -> bool:
    return any(reason.startswith("API_KEY") for reason in report.reasons) or bool(
        _BAD_KEY.search(report.text)
    )


def _bad_key(report: Report) -> BridgeError:
    reasons = ", ".join([report.heading, *map(mask, report.reasons)])
    return UpstreamMisconfigured(
        f"The bridge's own {report.server} key was refused ({reasons}). {ADMINISTRATOR}"
    )


def _forbidden(report: Report, model: str) -> BridgeError:
    if _FOREIGN_RESOURCE.search(report.text):
        return _refused(report, model)  # a file that the client named, not the bridge's key
    if _is_about_the_key(report):
        return _bad_key(report)
    return UpstreamMisconfigured(f"{report.message.rstrip('.')}. {ADMINISTRATOR}")


def _unknown_model(report: Report, model: str) -> BridgeError:
    said = (
        report.text
        or "the answer was 404 without a message; if every model is unknown, check the upstream address"
    )
    return UnknownModel(f"{report.server} has no model {model[:100]!r}: {said}", param="model")


def _too_large(report: Report, _model: str) -> BridgeError:
    return RequestTooLarge(report.text or f"The request is larger than {report.server} accepts.")


def _rate_limited(report: Report, _model: str) -> BridgeError:
    delay = report.retry_after
    if any(map(_LONG_QUOTA.search, report.quotas())) or "limit: 0" in report.text:
        # Google names a delay of seconds even for a daily quota.
        delay = max(delay or 0.0, float(LONGEST_RETRY_AFTER))
    return UpstreamRateLimited(
        report.text or f"The quota of {report.server} is used up for now.", retry_after=delay
    )


def _overloaded(report: Report, _model: str) -> BridgeError:
    return UpstreamOverloaded(
        report.text or f"{report.server} is overloaded.", retry_after=report.retry_after
    )


def _timed_out(report: Report, _model: str) -> BridgeError:
    return UpstreamTimeout(report.message)


_BY_CODE: dict[int, Callable[[Report, str], BridgeError]] = {
    400: _bad_request,
    401: _forbidden,
    402: _forbidden,
    403: _forbidden,
    404: _unknown_model,
    405: _forbidden,
    407: _forbidden,
    408: _timed_out,
    413: _too_large,
    429: _rate_limited,
    503: _overloaded,
    504: _timed_out,
    529: _overloaded,
}
