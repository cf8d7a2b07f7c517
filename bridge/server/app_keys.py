"""Where gunicorn's worker finds in the application what it must tell and ask, and the application what the
worker has for a request.

It stands by itself because gunicorn's master loads the worker's class too, and need not hold all of the
application in memory for that.
"""

from __future__ import annotations

DRAIN = "bridge.exchange.drain"
SLOW_CLIENTS = "bridge.slow_clients"
SLOTS = "bridge.places"
SLOT = "bridge.place"  #: of a request's environment: the place that the worker took for it
HEAD_TIMEOUT = "BRIDGE_HEAD_TIMEOUT"
