"""The keys under which the worker and the application find each other's objects.

They have a module of their own because gunicorn's master imports the worker class, and should not load the
whole application for it.
"""

from __future__ import annotations

DRAIN = "bridge.exchange.drain"
SLOW_CLIENTS = "bridge.slow_clients"
SLOTS = "bridge.slots"
SLOT = "bridge.slot"  #: key in the WSGI environment of a request: the slot that the worker reserved for it
HEAD_TIMEOUT = "BRIDGE_HEAD_TIMEOUT"
