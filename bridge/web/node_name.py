"""The name of the bridge that answers, for setups in which several bridges share one address."""

from __future__ import annotations

from flask import Flask, Response

NODE = "X-Bridge-Node"


def install_node_name(app: Flask, name: str) -> None:
    """Put the name into the headers of every answer."""

    @app.after_request
    def name_bridge(response: Response) -> Response:
        response.headers[NODE] = name
        return response
