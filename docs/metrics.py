"""Writes docs/METRICS.md from the metrics in the code: `make diagrams`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client.metrics import MetricWrapperBase

from bridge.observe import metrics, state_metrics

PAGE = Path(__file__).parent / "METRICS.md"

HEAD = """# Metrics

Written by `make diagrams` from `bridge/observe/`. `GET /metrics` serves these metrics in Prometheus' text
format to the addresses in `metrics.allowed_from`. [OBSERVABILITY.md](OBSERVABILITY.md) explains how to
collect them, and what to watch. Counters of all workers are added up. A label has few values: a model is a
label only if it is configured or has answered.

| metric | kind | labels | meaning |
|---|---|---|---|
"""


def page() -> str:
    return HEAD + "".join(f"{row}\n" for row in sorted(_rows()))


def _rows() -> Iterator[str]:
    for module in (metrics, state_metrics):
        for value in vars(module).values():
            if isinstance(value, MetricWrapperBase):
                yield _row(value.describe()[0], getattr(value, "_labelnames", ()))
    for family in metrics._Moment(0, 0, "").collect():
        yield _row(family, family.samples[0].labels)


def _row(family: Any, labels: Any) -> str:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    named = ", ".join(f"`{label}`" for label in labels) or "–"
    return f"| `{name}` | {family.type} | {named} | {family.documentation.replace('|', '')} |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
