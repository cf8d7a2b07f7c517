"""The targets of `make fuzz`, run on the seeds and on inputs that once failed."""

from __future__ import annotations

import pytest

from bridge.protocols import PROTOCOLS
from tests.fuzz import seeds
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_a_fuzz_target_passes_its_seeds(target: str) -> None:
    given = list(seeds.of(target))
    assert len(given) >= 3
    for data in given:
        TARGETS[target](data)


def test_every_protocol_is_fuzzed_in_both_directions() -> None:
    wanted = {f"{kind}-{protocol.name}" for kind in ("request", "answer") for protocol in PROTOCOLS}
    assert wanted <= set(TARGETS)


def test_inputs_that_once_failed_belong_to_a_target() -> None:
    assert {path.name for path in seeds.CRASHES.iterdir() if path.is_dir()} <= set(TARGETS)
