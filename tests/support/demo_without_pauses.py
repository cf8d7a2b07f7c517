"""The bridge with the demo model, here without its pauses: for tests that ask it a thousand times."""

from bridge.server.active_settings import active_settings
from bridge.upstream.demo import DemoUpstream
from bridge.web.app import create_app

app = create_app(active_settings(), DemoUpstream(pace=0))
