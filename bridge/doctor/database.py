"""Checks the PostgreSQL database: the way to it, its tables, its clock and its connections."""

from __future__ import annotations

from bridge.doctor.finding import Finding, Installation, green, red, yellow
from bridge.settings import Settings, SettingsError
from bridge.state.database_health import DatabaseHealth
from bridge.state.errors import DatabaseUnfit, StorageError
from bridge.state.stores import check_database, measure_database

#: Seconds. Each request waits for one round trip.
SLOW_TRIP = 0.02
#: Seconds. Two machines whose clocks differ more end keys and count days at different times.
CLOCK_DIFFERENCE = 2.0
#: The share of the server's connections above which new ones may soon be refused.
NEARLY_ALL = 0.8

UNUSED = "not used: the state is kept in SQLite files"


def check_database_server(installation: Installation) -> Finding:
    settings = installation.settings
    if not settings.state.url:
        return green(UNUSED)
    try:
        check_database(settings)
        health = measure_database(settings)
    except SettingsError as error:
        return red(str(error), "install the packages with this command, then restart the service")
    except DatabaseUnfit as error:
        return red(str(error), "do what the message says, then run the doctor again")
    except StorageError as error:
        return red(
            str(error), "start the server, or correct host and port in BRIDGE_STATE_URL; check the firewall"
        )
    trip = f"{health.round_trip * 1000:.1f} ms"
    if health.round_trip > SLOW_TRIP:
        return yellow(
            f"{health.location} needs {trip} for a round trip, and each request waits for one",
            "move the database into the same data centre as the bridges",
        )
    return green(
        f"{health.location}, PostgreSQL {health.version}, {trip} for a round trip, tables up to date"
    )


def check_database_clock(installation: Installation) -> Finding:
    health = _health(installation.settings)
    if isinstance(health, Finding):
        return health
    difference = f"{abs(health.ahead):.1f} seconds {'ahead' if health.ahead > 0 else 'behind'}"
    if abs(health.ahead) > CLOCK_DIFFERENCE:
        return yellow(
            f"the database's clock is {difference}; keys and day budgets would end at different times",
            "synchronize the clocks of both machines: timedatectl set-ntp true",
        )
    return green(difference)


def check_database_connections(installation: Installation) -> Finding:
    health = _health(installation.settings)
    if isinstance(health, Finding):
        return health
    used = f"{health.connections} of {health.most_connections} connections in use"
    if health.connections > NEARLY_ALL * health.most_connections:
        return yellow(
            f"{used}, {health.own_connections} of them by bridges",
            "raise max_connections of the server, or put a PgBouncer between; a worker needs up to five",
        )
    return green(f"{used}, {health.own_connections} of them by bridges")


def _health(settings: Settings) -> DatabaseHealth | Finding:
    """The measured values, or the finding if there are none."""
    if not settings.state.url:
        return green(UNUSED)
    try:
        return measure_database(settings)
    except (SettingsError, StorageError):
        return yellow("not checked, because the database cannot be used", "see the check “database”")
