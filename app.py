"""What gunicorn serves: `gunicorn -c gunicorn.conf.py app:app`."""

from bridge.http.app import create_app
from bridge.serving import settings_in_force

app = create_app(settings_in_force())
