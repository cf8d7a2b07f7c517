"""Reads a YAML file as plain values, and remembers the line of each.

This is the only module that imports PyYAML, an optional dependency.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from bridge.settings import SettingsError

YamlPath = tuple[str | int, ...]

#: More than any configuration has. Aliases of YAML can make a small file expand without end.
MOST_VALUES = 20_000


class YamlFile:
    def __init__(self, path: Path) -> None:
        self.lines: dict[YamlPath, int] = {}
        loader = _loader(path)
        try:
            root = loader.get_single_node()
            self.values: Any = None if root is None else self._value(loader, root, (), ())
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            place = "" if mark is None else f" at line {mark.line + 1}"
            raise SettingsError(f"{path} is not valid YAML{place}") from None
        finally:
            loader.dispose()

    def _value(self, loader: Any, node: Any, path: YamlPath, above: tuple[int, ...]) -> Any:
        self.lines[path] = node.start_mark.line + 1
        if id(node) in above or len(self.lines) > MOST_VALUES:
            raise SettingsError(
                f"line {self.lines[path]}: the file repeats itself without end, or is too long"
            )
        inside = (*above, id(node))
        if isinstance(node, yaml.SequenceNode):
            return [
                self._value(loader, each, (*path, number), inside) for number, each in enumerate(node.value)
            ]
        if isinstance(node, yaml.MappingNode):
            loader.flatten_mapping(node)  # merges `<<`
            return {
                str(key.value): self._value(loader, each, (*path, str(key.value)), inside)
                for key, each in node.value
            }
        return loader.construct_object(node)


def _loader(path: Path) -> Any:
    try:
        return yaml.SafeLoader(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, yaml.YAMLError):
        raise SettingsError(f"{path} is not a text in UTF-8") from None
