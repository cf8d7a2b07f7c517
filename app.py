"""What gunicorn serves: `gunicorn -c gunicorn.conf.py app:app`."""

from bridge.http.app import create_app

app = create_app()
