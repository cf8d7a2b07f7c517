"""Where gunicorn's worker finds in the application what it must tell, and how long a head may take.

It stands by itself because gunicorn's master loads the worker's class too, and need not hold all of the
application in memory for that.
"""

from __future__ import annotations

DRAIN = "bridge.drain"
SLOW_CLIENTS = "bridge.slow_clients"
HEAD_TIMEOUT = "BRIDGE_HEAD_TIMEOUT"
