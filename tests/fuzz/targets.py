"""All fuzz targets by name. A target takes bytes; any exception is a defect."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz import json_targets, wire_targets

TARGETS: dict[str, Callable[[bytes], None]] = {**wire_targets.TARGETS, **json_targets.TARGETS}
