"""The bridge with the demo model, here without its pauses: for tests that ask it a thousand times."""

from bridge.http.app import create_app
from bridge.serving import settings_in_force
from bridge.upstream.demo import DemoUpstream

app = create_app(settings_in_force(), DemoUpstream(pace=0))
