"""What the doctor needs to know about a database server."""

from __future__ import annotations

from typing import NamedTuple


class DatabaseHealth(NamedTuple):
    location: str  #: without the password
    version: int  #: of the server
    round_trip: float  #: seconds
    ahead: float  #: seconds that the server's clock is ahead of this machine's clock
    own_connections: int  #: of all bridges
    connections: int
    most_connections: int
