"""Spans of requests for an OpenTelemetry collector. This module is imported only if a collector is
configured.

A span is created from the record when the request has ended; a running request costs nothing. The names of
the attributes follow OpenTelemetry's conventions for HTTP servers and for generative AI.
"""

from __future__ import annotations

import os
import time

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from bridge import __version__
from bridge.certificates import ca_bundle
from bridge.observe.record import Record

PROVIDER = "gcp.gemini"
OPERATION = "chat"
TIMEOUT = 5.0
#: OpenTelemetry's own variables for a collector with a CA of its own.
CERTIFICATE = "OTEL_EXPORTER_OTLP_CERTIFICATE"
TRACES_CERTIFICATE = "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE"
NANO = 1_000_000_000

Attributes = dict[str, AttributeValue]


class RequestSpans:
    """The observer that creates spans."""

    def __init__(self, endpoint: str) -> None:
        given = os.environ.get(TRACES_CERTIFICATE) or os.environ.get(CERTIFICATE)
        exporter = OTLPSpanExporter(
            f"{endpoint.rstrip('/')}/v1/traces",
            timeout=TIMEOUT,
            certificate_file=given or ca_bundle().location,
        )
        resource = Resource.create({"service.name": "gemini-bridge", "service.version": __version__})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("bridge", __version__)
        self._propagator = TraceContextTextMapPropagator()

    def __call__(self, record: Record) -> None:
        ended = time.time_ns()
        began = ended - int(record.seconds * NANO)
        name = f"{record.method} {record.path}" if record.asked_model else record.method
        span = self._tracer.start_span(
            name, self._parent(record), SpanKind.SERVER, _of_request(record), start_time=began
        )
        if record.seconds_to_asking is not None:
            asked = began + int(record.seconds_to_asking * NANO)
            self._upstream_span(record, set_span_in_context(span), asked, ended)
        if record.outcome == "failed" and (record.status >= 500 or record.status < 400):
            span.set_status(StatusCode.ERROR)
        span.end(ended)

    def _upstream_span(self, record: Record, parent: Context, asked: int, ended: int) -> None:
        name = f"{OPERATION} {record.upstream_model}"
        span = self._tracer.start_span(name, parent, SpanKind.CLIENT, _of_model(record), start_time=asked)
        if record.outcome == "failed":
            span.set_status(StatusCode.ERROR)
        span.end(ended)

    def _parent(self, record: Record) -> Context:
        """The client's span, if its request names one."""
        named = {"traceparent": record.traceparent} if record.traceparent else {}
        return self._propagator.extract(named, Context())

    def close(self) -> None:
        self._provider.shutdown()


def _of_request(record: Record) -> Attributes:
    attributes: Attributes = {
        "http.request.method": record.method,
        "http.response.status_code": record.status,
        "url.path": record.path,
        "gemini_bridge.request_id": record.request_id,
        "gemini_bridge.outcome": record.outcome,
    }
    if record.key:
        attributes["gemini_bridge.key"] = record.key
    if record.error:
        attributes["error.type"] = record.error
    return {**attributes, **_of_model(record)} if record.asked_model else attributes


def _of_model(record: Record) -> Attributes:
    attributes: Attributes = {
        "gen_ai.operation.name": OPERATION,
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.system": PROVIDER,  # the former name of the attribute
        "gen_ai.request.model": record.model or "",
        "gen_ai.response.model": record.model_version or record.upstream_model or "",
    }
    if record.usage is not None and record.usage.raw:
        attributes["gen_ai.usage.input_tokens"] = record.usage.prompt
        attributes["gen_ai.usage.cache_read.input_tokens"] = record.usage.cached
        attributes["gen_ai.usage.output_tokens"] = record.usage.output
    if record.finish_reasons:
        attributes["gen_ai.response.finish_reasons"] = record.finish_reasons
    if record.error:
        attributes["error.type"] = record.error
    return attributes
