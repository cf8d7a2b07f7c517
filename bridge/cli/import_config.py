"""`gemini-bridge import litellm FILE`: the configuration of another gateway as files of the bridge."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bridge.cli.command import PROGRAM, Command, Example
from bridge.settings import SettingsError
from bridge.settings.source import PROJECT, has_package

if TYPE_CHECKING:
    from bridge.migration.litellm import NotCarried

SHIPPED = PROJECT / "config"
NEEDS_YAML = f"import needs PyYAML: {sys.executable} -m pip install 'gemini-bridge[import]'"


def _arguments(parser: argparse.ArgumentParser) -> None:
    gateways = parser.add_subparsers(dest="gateway", metavar="gateway", required=True)
    litellm = gateways.add_parser("litellm", help="the config.yaml of LiteLLM's proxy")
    litellm.add_argument("file", metavar="FILE", help="the config.yaml")
    litellm.add_argument("--to", metavar="FOLDER", help="write a settings folder; default: print the files")


def _run(arguments: argparse.Namespace) -> int:
    if not has_package("yaml"):
        raise SettingsError(NEEDS_YAML)
    from bridge.migration.config_files import files, write
    from bridge.migration.litellm import translated
    from bridge.migration.yaml_file import YamlFile

    result = translated(YamlFile(Path(arguments.file)))
    texts = files(result, SHIPPED)
    if arguments.to is None:
        for name, text in texts.items():
            print(f"# === {name}\n{text}")
    else:
        write(Path(arguments.to), texts, SHIPPED)
        print(f"{arguments.to}: written. Check it: BRIDGE_CONFIG_DIR={arguments.to} {PROGRAM} check")
    _report(result.not_carried)
    return 0


def _report(not_carried: Sequence[NotCarried]) -> None:
    if not_carried:
        print(f"{PROGRAM}: not carried, {len(not_carried)} in all:", file=sys.stderr)
    for each in not_carried:
        print(f"  line {each.line}: {each.name}: {each.why}", file=sys.stderr)


IMPORT = Command(
    _run,
    "translate the configuration of another gateway: litellm",
    _arguments,
    examples=(
        Example("import litellm config.yaml --to config-new", "a settings folder from LiteLLM's file"),
    ),
)
