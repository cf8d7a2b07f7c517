"""What gunicorn serves: `gunicorn -c gunicorn.conf.py app:app`."""

from bridge.server.active_settings import settings_in_force
from bridge.web.app import create_app

app = create_app(settings_in_force())
