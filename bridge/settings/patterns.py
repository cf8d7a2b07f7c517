"""Regular expressions from configuration files, searched in linear time.

RE2 searches in time linear in the length of the text, for every pattern and every text that a model writes.
Python's `re` can take exponential time, and it blocks the whole process meanwhile. The drawback: RE2 supports
neither look-around nor back-references (`(?=`, `(?!`, `\\1`), so a pattern with these stops the start. RE2 is
imported with the first pattern, because it takes megabytes and most installations have no pattern.
"""

from __future__ import annotations

from bridge.settings.value import SettingsError


class Pattern:
    """A regular expression that can be searched in any text."""

    def __init__(self, pattern: str) -> None:
        import re2  # type: ignore[import-untyped]

        options = re2.Options()
        options.log_errors = False
        self._found = re2.compile(pattern.encode(), options)

    def found_in(self, text: str) -> bool:
        # A lone surrogate cannot be encoded; replace it, so that it cannot hide the text from the pattern.
        return self._found.search(text.encode("utf-8", "replace")) is not None


def checked_pattern(pattern: str, where: str) -> Pattern:
    import re2

    try:
        return Pattern(pattern)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else "no reason given"
        raise SettingsError(f"{where} is not a regular expression that RE2 understands: {reason}") from None
