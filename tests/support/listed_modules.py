"""The bridge with a page that lists the modules which its worker has imported."""

import sys

import orjson
from flask import Response

from bridge.server.active_settings import active_settings
from bridge.web.app import create_app

app = create_app(active_settings())


@app.get("/healthz/modules")
def modules() -> Response:
    return Response(orjson.dumps(sorted(sys.modules)), content_type="application/json")
