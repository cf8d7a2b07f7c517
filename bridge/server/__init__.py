"""gunicorn's side: the worker, its threads and connections, and what it has room for. Knows no Flask."""
