"""The application that gunicorn serves, with the settings that gunicorn's master accepted."""

from bridge.server.active_settings import active_settings
from bridge.web.app import create_app

app = create_app(active_settings())
