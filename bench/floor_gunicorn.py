"""gunicorn's settings for the floor: like those of the bridge, without the bridge's code."""

worker_class = "gthread"
workers = 1
threads = 256
keepalive = 75
loglevel = "warning"
control_socket_disable = True
worker_tmp_dir = "/dev/shm"
