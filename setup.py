"""The build step that setup.cfg cannot express: a built package carries default settings and documents.

In a checkout `config/`, `docs/` and `gunicorn.conf.py` stand where people look for them. The
build copies them to `bridge/shipped/`, so git holds one copy. `bridge/settings/source.py` chooses between the
two places.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = "bridge/shipped"


def shipped_files() -> list[str]:
    settings = sorted(path.as_posix() for path in Path("config").glob("*.toml"))
    return [
        *(path for path in settings if path != "config/local.toml"),
        "gunicorn.conf.py",
        "docs/openapi.json",
        *sorted(path.as_posix() for path in Path("docs").glob("*.md")),  # what the demo agent answers from
    ]


class BuildWithDefaults(build_py):
    """An editable install skips `build_package_data`: it uses the files of the checkout."""

    def build_package_data(self) -> None:
        super().build_package_data()
        for path in shipped_files():
            target = Path(self.build_lib, SHIPPED, path)
            self.mkpath(str(target.parent))
            self.copy_file(path, str(target))


setup(cmdclass={"build_py": BuildWithDefaults})
