"""The OpenAPI document is correct: it has every route, and responses to generated requests match it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import requests
import schemathesis
from gunicorn_bridge import ROOT, gunicorn_bridge
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from bridge.settings import load
from bridge.web.app import create_app

PAGE = ROOT / "docs" / "openapi.json"
#: Flask's own methods, and the name of the routes that only explain what is wrong.
UNWRITTEN_METHODS = {"HEAD", "OPTIONS"}
UNSUPPORTED = "unsupported"

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]

SCHEMA = schemathesis.openapi.from_path(
    PAGE,
    config=schemathesis.Config.from_dict(
        {
            "generation": {"deterministic": True, "max-examples": 15, "database": "none", "mode": "all"},
            "phases": {"coverage": {"enabled": True, "unexpected-methods": []}},
        }
    ),
)


def generator():
    spec = importlib.util.spec_from_file_location("openapi_page", PAGE.with_suffix(".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_openapi_document_matches_the_schemas():
    assert generator().page() == PAGE.read_text(), "run: make diagrams"


def test_the_openapi_document_lists_exactly_the_routes(tmp_path: Path):
    app = create_app(load(ROOT / "config", {"BRIDGE_STATE_DIR": str(tmp_path)}))
    served = {
        (path, method)
        for rule in app.url_map.iter_rules()
        if rule.endpoint.rpartition(".")[2] != UNSUPPORTED
        for path in generator().written([rule.rule])
        for method in rule.methods - UNWRITTEN_METHODS
    }
    paths = generator().document()["paths"]
    assert {(path, method.upper()) for path, methods in paths.items() for method in methods} == served


@pytest.fixture(scope="module")
def session():
    with requests.Session() as session:
        yield session


@pytest.fixture(scope="module")
def address():
    with gunicorn_bridge("tests.support.demo_without_pauses:app") as running:
        yield running.address


@SCHEMA.parametrize()
@pytest.mark.parametrize("timeout", [20])  # without a parameter, all operations would have the same test id
def test_any_response_matches_the_openapi_document(case, address, session, timeout):
    response = case.call(base_url=address, session=session, timeout=timeout)
    case.validate_response(response, checks=CHECKS)


@pytest.mark.parametrize("asked", ["/v1/responses", "/v1beta/interactions", "/v1/interactions"])
def test_stored_answer_responses_match_the_openapi_document(address, session, asked):
    body = {"model": "demo", "input": "Hi", "store": True}
    made = session.post(f"{address}{asked}", json=body, timeout=20).json()
    path = f"{asked}/{{answer_id}}"
    listed = [(f"{path}/input_items", "GET")] if asked == "/v1/responses" else []
    life = [(path, "GET"), *listed, (f"{path}/cancel", "POST"), (path, "DELETE")]
    statuses = []
    for path, method in [*life, life[0]]:
        case = SCHEMA[path][method].Case(path_parameters={"answer_id": made["id"]})
        statuses.append(case.call_and_validate(address, session=session, checks=CHECKS[:-1]).status_code)
    assert statuses == [*(200 for _ in range(1 + len(listed))), 400, 200, 404]


@pytest.mark.parametrize("path", ["/v1/models/{name}", "/v1beta/models/{name}"])
def test_model_responses_match_the_openapi_document(address, session, path):
    case = SCHEMA[path]["GET"].Case(path_parameters={"name": "demo"})
    assert case.call_and_validate(address, session=session, checks=CHECKS[:-1]).status_code == 200
