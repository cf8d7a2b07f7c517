"""The list of all checks. A new check needs a function in this package and a line here, after the checks
that may already name its cause."""

from __future__ import annotations

from bridge.doctor.access import check_access
from bridge.doctor.database import check_database_clock, check_database_connections, check_database_server
from bridge.doctor.finding import Check
from bridge.doctor.installation import check_packages, check_path_files, check_python
from bridge.doctor.machine import check_configuration, check_gunicorn, check_unit
from bridge.doctor.models import check_lifecycle, check_models
from bridge.doctor.prices import check_prices
from bridge.doctor.service import check_public_address, check_service
from bridge.doctor.state import check_disk, check_state_files, check_state_folder
from bridge.doctor.upstream import (
    check_certificate,
    check_clock,
    check_keys,
    check_route,
)
from bridge.doctor.upstream_health import check_upstreams

CHECKS: tuple[Check, ...] = (
    Check("python", check_python),
    Check("packages", check_packages),
    Check("path files", check_path_files),
    Check("configuration", check_configuration),
    Check("state folder", check_state_folder),
    Check("state disk", check_disk),
    Check("database", check_database_server),
    Check("database clock", check_database_clock, after=("database",)),
    Check("database use", check_database_connections, after=("database",)),
    Check("state files", check_state_files, after=("state folder", "database")),
    Check("access", check_access, after=("state folder", "state files", "database")),
    Check("network route", check_route),
    Check("certificate", check_certificate, after=("network route",)),
    Check("clock", check_clock, after=("network route", "certificate")),
    Check("upstream key", check_keys, after=("network route", "certificate")),
    Check("upstreams", check_upstreams),
    Check("models", check_models, after=("upstream key",)),
    Check("model lifecycle", check_lifecycle),
    Check("prices", check_prices),
    Check("gunicorn", check_gunicorn),
    Check("systemd", check_unit),
    Check("service", check_service, after=("configuration", "database", "systemd")),
    Check("public address", check_public_address, after=("service",)),
)
