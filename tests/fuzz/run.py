"""Fuzz all targets for equal shares of the time, or a single one; report how to reproduce a failure.

python -m tests.fuzz.run --seconds 60
python -m tests.fuzz.run --target framing --seconds 600
python -m tests.fuzz.run --target framing --input tests/fuzz/found/framing/crash-…
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

#: The allowed seconds and MB of memory for one input; more is a failure.
LONGEST_RUN, MOST_MEMORY = 10, 2048
#: Longer inputs find little more than shorter ones, and are slow.
LONGEST_INPUT = 8192
LAST_LINES = 40  #: of a failure's output

Target = Callable[[bytes], None]


def main() -> int:
    arguments = _arguments()
    logging.getLogger("bridge").setLevel(logging.CRITICAL)
    if arguments.input:
        from tests.fuzz.targets import TARGETS

        TARGETS[arguments.target](arguments.input.read_bytes())
        print("This input passes.")
        return 0
    targets = _instrumented()
    chosen = [arguments.target] if arguments.target else list(targets)
    share = max(1, arguments.seconds // len(chosen))
    failed = [name for name in chosen if not _passes(name, targets[name], share)]
    print(f"{len(chosen)} targets, {share} s each; failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together")
    parser.add_argument("--target")
    parser.add_argument("--input", type=Path, help="run the target on this file alone")
    return parser.parse_args()


def _instrumented() -> dict[str, Target]:
    """Instrument the bridge's branches for the fuzzer, once for all targets, as it takes ten seconds."""
    import atheris

    instrumented = atheris.instrument_imports(include=["bridge"])
    with tempfile.TemporaryFile() as names, _told_to(names.fileno()), instrumented:
        from tests.fuzz.targets import TARGETS
    return TARGETS


@contextmanager
def _told_to(descriptor: int) -> Iterator[None]:
    """Redirect the terminal output, including the output of C code."""
    sys.stdout.flush()
    kept = [os.dup(number) for number in (1, 2)]
    for number in (1, 2):
        os.dup2(descriptor, number)
    try:
        yield
    finally:
        sys.stdout.flush()
        for number, before in zip((1, 2), kept, strict=True):
            os.dup2(before, number)
            os.close(before)


def _passes(name: str, target: Target, seconds: int) -> bool:
    from tests.fuzz.seeds import FOUND

    found = FOUND / name
    found.mkdir(parents=True, exist_ok=True)
    before = set(found.iterdir())
    with tempfile.TemporaryDirectory() as corpus, tempfile.TemporaryFile() as said:
        options = _options(seconds, Path(corpus), _written(name, Path(corpus)), found)
        with _told_to(said.fileno()):
            ended = _fuzzed(_saving(target, found), options)
        said.seek(0)
        told = said.read().decode(errors="replace")
    new = sorted(set(found.iterdir()) - before)
    passes = ended == 0 and not new
    print(f"{name}: {_runs(told)} inputs, {'none failed' if passes else 'FAILED'}", flush=True)
    if not passes:
        _tell(name, told, new)
    return passes


def _saving(target: Target, found: Path) -> Target:
    """Save inputs that raise; the fuzzer itself saves only inputs that hang or exhaust the memory."""

    def saving(data: bytes) -> None:
        try:
            target(data)
        except BaseException:
            (found / f"crash-{sha256(data).hexdigest()[:16]}").write_bytes(data)
            raise

    return saving


def _fuzzed(target: Target, options: list[str]) -> int:
    """Run the fuzzer in its own process, which it or a crash ends, and return the exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    import atheris

    try:
        atheris.Setup([sys.argv[0], *options], target)
        atheris.Fuzz()
    finally:
        os._exit(1)


def _written(name: str, corpus: Path) -> Path:
    """Write each seed to a file, and the words beside them."""
    from tests.fuzz import seeds

    (corpus / "seeds").mkdir()
    for number, data in enumerate(seeds.of(name)):
        (corpus / "seeds" / str(number)).write_bytes(data)
    words = corpus / "words"
    escaped = (word.replace(b'"', b'\\"') for word in seeds.words_of(name))
    words.write_bytes(b"".join(b'"%b"\n' % word for word in escaped))
    return words


def _options(seconds: int, corpus: Path, words: Path, found: Path) -> list[str]:
    options = {
        "max_total_time": seconds,
        "max_len": LONGEST_INPUT,
        "timeout": LONGEST_RUN,
        "rss_limit_mb": MOST_MEMORY,
        "dict": words,
        "artifact_prefix": f"{found}/",
    }
    return [*(f"-{name}={value}" for name, value in options.items()), str(corpus / "seeds")]


def _runs(told: str) -> str:
    found = re.findall(r"^(?:Done |#)(\d+)", told, re.MULTILINE)
    return found[-1] if found else "0"


def _tell(name: str, told: str, new: list[Path]) -> None:
    lines = [line for line in told.splitlines() if not line.startswith(("INFO", "WARNING", "#"))]
    print("\n".join(lines[-LAST_LINES:]))
    for path in new:
        place = path.relative_to(ROOT)
        print(f"To see it again: .venv/bin/python -m tests.fuzz.run --target {name} --input {place}")


if __name__ == "__main__":
    sys.exit(main())
