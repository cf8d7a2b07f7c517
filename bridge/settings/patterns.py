"""Regular expressions that somebody wrote into a file: they must compile, and never run away.

RE2 searches in time that grows with the text alone, whatever the pattern and whatever a model puts into the
arguments. Python's own engine can take ages, and the whole process stands still meanwhile. The price:
patterns that look around or back (`(?=`, `(?!`, `\\1`) are refused, at the start, where somebody can still
change them. It is loaded with the first pattern: it takes megabytes, and most installations have none.
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
        # Half a character, which no pattern can name, must not be a way around one.
        return self._found.search(text.encode("utf-8", "replace")) is not None


def checked_pattern(pattern: str, where: str) -> Pattern:
    import re2

    try:
        return Pattern(pattern)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else "no reason given"
        raise SettingsError(f"{where} is not a regular expression that RE2 understands: {reason}") from None
