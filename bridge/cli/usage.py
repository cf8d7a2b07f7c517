"""`gemini-bridge usage`: reports requests, tokens and cost."""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from bridge.cli.command import FAILED, PROGRAM, Command, Example
from bridge.cli.table import format_table
from bridge.settings import Settings, load
from bridge.settings.value import suggestion
from bridge.state.errors import StorageError
from bridge.state.store import PATIENT
from bridge.state.stores import open_stores
from bridge.state.usage_store import (
    GROUPINGS,
    RefusalSum,
    UsageGroup,
    UsageQuery,
    UsageStore,
    UsageSums,
    total,
)

DEFAULT_DAYS = "30d"
NOBODY = "(none)"
MOST_REFUSALS_SHOWN = 20
HEADINGS = ("REQUESTS", "FAILED", "INPUT", "CACHED", "OUTPUT", "REASONING", "CACHED %", "COST")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by",
        type=_dimensions,
        default=("day",),
        metavar="COLUMNS",
        help=f"how to group: one or more of {', '.join(GROUPINGS)}, separated by commas; default: day",
    )
    day = "a number of days such as 7d, or a day such as 2026-11-01 (UTC)"
    parser.add_argument(
        "--since", type=day_argument, default=DEFAULT_DAYS, help=f"{day}; default: {DEFAULT_DAYS}"
    )
    parser.add_argument(
        "--until", type=day_argument, default="1d", metavar="UNTIL", help="the last day; default: today"
    )
    parser.add_argument("--key", metavar="NAME", help="only requests with the client key of this name")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--csv", action="store_true", help="print CSV for spreadsheets, without the total")


def _dimensions(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip().lower() for name in text.split(",")))
    for name in names:
        if name not in GROUPINGS:
            raise argparse.ArgumentTypeError(f"{name!r} is unknown; {suggestion(name, GROUPINGS)}")
    return names


def day_argument(text: str) -> date:
    """A day; `7d` is the first of the last seven days, including today."""
    try:
        if days := re.fullmatch(r"(\d{1,5})d", text):
            return datetime.now(UTC).date() - timedelta(days=max(int(days[1]), 1) - 1)
        return date.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number of days such as 7d nor a day such as 2026-11-01"
        ) from None


def _print_usage(arguments: argparse.Namespace) -> int:
    settings = load()
    store = open_stores(settings, PATIENT).usage
    query = UsageQuery(arguments.by, arguments.since, arguments.until, arguments.key)
    try:
        groups, refused = store.sums(query), store.refusals(query)
    except StorageError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        print("Run this as the user that the service runs as, or as root.", file=sys.stderr)
        return FAILED
    if arguments.json:
        print(_as_json(groups, refused, query, settings.prices.currency))
    elif arguments.csv:
        _write_csv(groups, query)
    else:
        print("\n".join([*_as_text(groups, query, settings, store), *_refused_as_text(refused)]))
    return 0


USAGE = Command(
    _print_usage,
    "report requests, tokens and cost by day, key, model and more",
    _arguments,
    (
        Example("usage", f"the last {DEFAULT_DAYS.removesuffix('d')} days, by day"),
        Example("usage --by key,model --since 7d", "who used which model in the last seven days"),
        Example("usage --key alice --csv", "the requests of one key, for a spreadsheet"),
    ),
)


# --- JSON and CSV ------------------------------------------------------------------------------------


def _as_json(
    groups: Sequence[UsageGroup], refused: Sequence[RefusalSum], query: UsageQuery, currency: str
) -> str:
    named = [dict(zip(query.by, group.names, strict=True)) | _fields(group.sums) for group in groups]
    shown = {
        "since": query.since.isoformat(),
        "until": query.until.isoformat(),
        "currency": currency,
        "rows": named,
        "total": _fields(total(groups)),
        "refused": [each._asdict() for each in refused],
    }
    return json.dumps(shown, indent=2, ensure_ascii=False)


def _fields(sums: UsageSums) -> dict[str, int | float | None]:
    share = sums.cached_share
    return sums._asdict() | {"cached_share": None if share is None else round(share, 4)}


def _write_csv(groups: Sequence[UsageGroup], query: UsageQuery) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*query.by, *_fields(UsageSums())])
    for group in groups:
        writer.writerow([*map(_harmless, group.names), *_fields(group.sums).values()])


def _harmless(text: str) -> str:
    """Clients choose some of the names, and a spreadsheet would execute a name that looks like a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


# --- text --------------------------------------------------------------------------------------------


def _as_text(
    groups: Sequence[UsageGroup], query: UsageQuery, settings: Settings, store: UsageStore
) -> list[str]:
    if not groups:
        return [_no_requests(query, store)]
    width = len(query.by)
    rows = [[name.upper() for name in query.by] + list(HEADINGS)]
    rows += [[_printable(name) for name in group.names] + _cells(group.sums) for group in groups]
    rows.append(["TOTAL", *[""] * (width - 1), *_cells(total(groups))])
    period = f"{query.since} to {query.until} (UTC), cost in {settings.prices.currency}"
    return [period, "", *format_table(rows, right_from=width), *_remarks(groups, query, settings, store)]


def _refused_as_text(refused: Sequence[RefusalSum]) -> list[str]:
    if not refused:
        return []
    rows = [["KEY", "REASON", "MODEL", "REQUESTS"]]
    rows += [
        [_printable(each.key), each.rule, _printable(each.model), f"{each.requests:,}"]
        for each in refused[:MOST_REFUSALS_SHOWN]
    ]
    more = len(refused) - MOST_REFUSALS_SHOWN
    footer = [f"… and {more:,} more rows; --json shows all of them"] if more > 0 else []
    header = "Requests that the bridge refused; they do not count towards limits or the totals above:"
    return ["", header, *format_table(rows, right_from=3), *footer]


def _no_requests(query: UsageQuery, store: UsageStore) -> str:
    if not store.stored_bytes():
        return f"No usage is recorded yet: no request was sent to a model ({store.location})."
    whose = f" with the key {query.key}" if query.key is not None else ""
    period = f"from {query.since} to {query.until} (UTC)"
    return f"No request{whose} was sent to a model {period}{_near(query, store)}."


def _near(query: UsageQuery, store: UsageStore) -> str:
    """A hint, if other keys were used in the time."""
    if query.key is None:
        return ""
    used = [group.names[0] for group in store.sums(UsageQuery(("key",), query.since, query.until))]
    return f"; {suggestion(query.key, list(map(_printable, used)))}" if used else ""


def _cells(sums: UsageSums) -> list[str]:
    counts = (sums.requests, sums.failed, sums.input, sums.cached, sums.output, sums.reasoning)
    share = "–" if sums.cached_share is None else f"{sums.cached_share:.0%}"
    return [*(f"{count:,}" for count in counts), share, f"{sums.cost:,.4f}"]


def _printable(name: str) -> str:
    """The name for a terminal. Clients choose some names, so control characters are replaced."""
    return "".join(sign if sign.isprintable() else "?" for sign in name)[:60] or NOBODY


def _remarks(
    groups: Sequence[UsageGroup], query: UsageQuery, settings: Settings, store: UsageStore
) -> list[str]:
    remarks = []
    if answers := total(groups).from_cache:
        saved = f"{total(groups).saved:,.4f} {settings.prices.currency}"
        remarks.append(f"Answers of the request cache: {answers:,}, which saved {saved}.")
    if unpriced := total(groups).unpriced:
        of_models = UsageQuery(("model",), query.since, query.until, query.key)
        models = [group.names[0] for group in store.sums(of_models) if group.sums.unpriced]
        names = ", ".join(map(_printable, models[:10]))
        remarks.append(
            "Requests without a cost, since their models have no price in prices.toml: "
            f"{unpriced:,} ({names})"
        )
    kept_since = datetime.now(UTC).date() - timedelta(days=settings.accounts.request_days)
    if query.needs_requests and query.since < kept_since:
        remarks.append(
            f"Single requests are kept for {settings.accounts.request_days} days (accounts.request_days), so "
            f"a report by {', '.join(query.by)} shows nothing before {kept_since}."
        )
    return ["", *remarks] if remarks else []
