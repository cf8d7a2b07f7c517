"""The bridge with the demo model, here without its pauses: for tests that ask it a thousand times."""

from bridge.server.active_settings import settings_in_force
from bridge.upstream.demo import DemoUpstream
from bridge.web.app import create_app

app = create_app(settings_in_force(), DemoUpstream(pace=0))
