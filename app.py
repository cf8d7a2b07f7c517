"""What gunicorn serves: `gunicorn -c gunicorn.conf.py app:app`."""

from bridge.server.active_settings import active_settings
from bridge.web.app import create_app

app = create_app(active_settings())
