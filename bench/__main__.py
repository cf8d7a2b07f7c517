"""`make bench` and `make bench-peers`: measure, print the table, write bench/results.json."""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import orjson

from bench.differences import differences
from bench.figures import Row, rows
from bench.gateways import BRIDGE, FLOOR
from bench.measure import measured
from bench.peers import peers, versions
from bench.postgres import POSTGRES, SQLITE, bridges_with_limits
from bench.results import Results
from bench.scenarios import EFFORTS, SCENARIOS, START
from bench.table import notes, table
from bench.upstreams import ONE, THREE, bridges_with_upstreams

NAMES = [*(scenario.name for scenario in SCENARIOS), START]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--peers", action="store_true", help="measure LiteLLM and Portkey too")
    parser.add_argument(
        "--postgres", action="store_true", help="measure limits on PostgreSQL and on SQLite too"
    )
    parser.add_argument(
        "--upstreams", action="store_true", help="measure the bridge with three upstreams and with one too"
    )
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="run only these scenarios")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results.json")
    for effort, meaning in (("quick", "about a minute"), ("smoke", "only checks that the benchmark works")):
        parser.add_argument(f"--{effort}", action="store_const", const=effort, dest="effort", help=meaning)
    arguments = parser.parse_args()
    arguments.effort = arguments.effort or ("peers" if arguments.peers else "full")
    return arguments


def _progress(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def _document(results: Results, found: Sequence[Row], effort: str) -> dict[str, object]:
    return {
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "effort": effort,
        "foreign_cores": results.foreign_cores(),
        "figures": [row.as_json() for row in found],
        "passed_on": {f"{who.gateway} {who.protocol}": passed for who, passed in results.passed_on.items()},
        "samples": results.as_json(),
    }


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the exit stops the started processes
    arguments = _arguments()
    effort = EFFORTS[arguments.effort]
    scenarios = [each for each in map(effort.fitted, SCENARIOS) if each and each.name in arguments.only]
    others = peers(scenarios) if arguments.peers else []
    starts = effort.starts if START in arguments.only else 0
    others += bridges_with_upstreams() if arguments.upstreams else []
    with ExitStack() as stack:
        if arguments.postgres:
            others += stack.enter_context(bridges_with_limits())
        results = measured([FLOOR, BRIDGE, *others], scenarios, starts, _progress)
    names = [gateway.name for gateway in others]
    found = list(rows(results, names))
    document = _document(results, found, arguments.effort)
    document["versions"] = versions() if arguments.peers else {}
    arguments.json.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    compared = [*differences(results, POSTGRES, SQLITE), *differences(results, THREE, ONE)]
    print(table(found, names), *notes(found, results), *compared, sep="\n\n")
    return int(any(who.gateway == BRIDGE.name for who, _, _ in results.wrong()))


if __name__ == "__main__":
    sys.exit(main())
