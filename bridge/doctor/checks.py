"""All that is known to go wrong on a machine. A check is a function beside this file and a line here."""

from __future__ import annotations

from bridge.doctor.access import look_at_access
from bridge.doctor.finding import Check
from bridge.doctor.installation import look_at_packages, look_at_path_files, look_at_python
from bridge.doctor.machine import look_at_configuration, look_at_gunicorn, look_at_unit
from bridge.doctor.models import look_at_lifecycle, look_at_models
from bridge.doctor.prices import look_at_prices
from bridge.doctor.service import look_at_front_door, look_at_service
from bridge.doctor.state import look_at_disk, look_at_state_files, look_at_state_folder
from bridge.doctor.upstream import (
    look_at_certificate,
    look_at_clock,
    look_at_keys,
    look_at_way,
)

CHECKS: tuple[Check, ...] = (
    Check("python", look_at_python),
    Check("packages", look_at_packages),
    Check("path files", look_at_path_files),
    Check("configuration", look_at_configuration),
    Check("state folder", look_at_state_folder),
    Check("state disk", look_at_disk),
    Check("state files", look_at_state_files),
    Check("access", look_at_access),
    Check("way to upstream", look_at_way),
    Check("certificate", look_at_certificate),
    Check("clock", look_at_clock),
    Check("upstream key", look_at_keys),
    Check("models", look_at_models),
    Check("model lifecycle", look_at_lifecycle),
    Check("prices", look_at_prices),
    Check("gunicorn", look_at_gunicorn),
    Check("systemd", look_at_unit),
    Check("service", look_at_service),
    Check("front door", look_at_front_door),
)
