"""gunicorn's side: the worker with its threads, connections, slots and memory budget. Does not use Flask."""
