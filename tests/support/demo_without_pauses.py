"""The bridge with the demo model but without its pauses, for tests with thousands of requests."""

from bridge.server.active_settings import active_settings
from bridge.upstream.demo import DemoUpstream
from bridge.web.app import create_app

app = create_app(active_settings(), DemoUpstream(pace=0))
