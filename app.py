"""The application under a short name: `gunicorn -c gunicorn.conf.py app:app`."""

from bridge.web.wsgi import app

__all__ = ["app"]
