"""Collects the results of test_matrix.py, prints them as a table, and writes the document on request."""

from __future__ import annotations

import re

import matrix
import pytest

_CELLS = pytest.StashKey[matrix.Cells]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-matrix", action="store_true", help="write the matrix into docs/CLIENTS.md")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_CELLS] = {}
    config.pluginmanager.register(_Gatherer(config), "client-matrix")


class _Gatherer:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = re.search(r"test_matrix\.py::(\w+)\[(.+)\]$", report.nodeid)
        if found is None or found[1] not in matrix.CAPABILITIES:
            return
        cell = _cell_text(report)
        if cell:
            self._config.stash[_CELLS][found[2], found[1]] = cell

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        cells = self._config.stash[_CELLS]
        if not cells:
            return
        terminalreporter.section("client × capability")
        terminalreporter.write(matrix.table(cells))
        if self._config.getoption("--write-matrix"):
            matrix.write(cells)


def _cell_text(report: pytest.TestReport) -> str | None:
    """Return the text of a test's cell, or nothing before it has run."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    if report.failed:
        return "**no**"
    return str(dict(report.user_properties).get("told", matrix.YES)) if report.when == "call" else None
