"""Virtual environments that mix the packages of two others.

A mixture has hard links to the files of its packages, so it is made in seconds and takes no room.
"""
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Dict, FrozenSet, List, Optional, Set, Tuple

VENVS = "setuptools"  # venv may install it, in the version of its Python, and pip freeze leaves it out


class Unusable(Exception):
    """An environment cannot be mixed. The message has the reason and the remedy."""


def normalized(name: str) -> str:
    """The name of a package as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


class Environment:
    """A virtual environment: its Python, and its packages with their versions and files."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.python = folder / "bin/python"
        if not self.python.exists():
            raise Unusable(f"{folder} is not a virtual environment: it has no bin/python; "
                             f"make one with: python3 -m venv {folder}")
        self.site = pathlib.Path(self._answer("import sysconfig; print(sysconfig.get_path('purelib'))"))
        self.base = self._answer("import sys; print(sys._base_executable)")
        self.release = self._answer("import platform; print(platform.python_version())")
        self.packages: Dict[str, importlib.metadata.Distribution] = {}
        for found in importlib.metadata.distributions(path=[str(self.site)]):
            name = normalized(found.metadata["Name"])
            if name != "pip":  # a program does not import it
                self.packages.setdefault(name, found)

    def _answer(self, program: str) -> str:
        done = subprocess.run([str(self.python), "-c", program], check=True, text=True, stdout=subprocess.PIPE)
        return done.stdout.strip()

    def version(self, name: str) -> Optional[str]:
        """None: the package is not installed."""
        found = self.packages.get(name)
        return found.version if found else None

    def conflicts(self) -> Set[Tuple[str, str]]:
        """Pairs of packages of which the first requires another version of the second."""
        done = subprocess.run([sys.executable, "-m", "pip", "--python", str(self.python), "check"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        found = re.findall(r"^(\S+) \S+ (?:has requirement|requires) ([A-Za-z0-9._-]+)", done.stdout, re.MULTILINE)
        return {(normalized(one), normalized(other)) for one, other in found}


def environment_of(source: pathlib.Path, made_in: pathlib.Path, python: str) -> Environment:
    """The environment in this folder, or a new one in `made_in` with the packages of a lock file (pip freeze)."""
    if source.is_dir():
        return Environment(source)
    if not source.is_file():
        raise Unusable(f"there is no '{source}'; give a virtual environment, or a file that pip freeze has written")
    lock = source.read_text(encoding="utf-8")
    written = made_in / "lock.txt"
    if written.is_file() and written.read_text(encoding="utf-8") == lock:
        return Environment(made_in)
    shutil.rmtree(made_in, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(made_in)], check=True)
    # A lock names every package, and its versions may contradict each other as they did where it was made.
    done = subprocess.run([str(made_in / "bin/python"), "-m", "pip", "install", "--quiet", "--no-deps",
                           "--disable-pip-version-check", "--requirement", str(source)])
    if done.returncode != 0:
        raise Unusable(f"pip cannot install {source} with {python}; its message is above. "
                         "--python names another Python")
    written.write_text(lock, encoding="utf-8")
    return Environment(made_in)


def _files(package: importlib.metadata.Distribution, site: pathlib.Path) -> List[pathlib.Path]:
    """The files of a package below `site`, without compiled Python and programs in bin/."""
    if package.files is None:
        raise Unusable(f"{package.metadata['Name']} {package.version} has no list of its files (RECORD); "
                         "install it again with pip")
    found = []
    for file in package.files:
        if ".." in file.parts or file.suffix == ".pyc":
            continue
        if (site / file).is_file():
            found.append(pathlib.Path(str(file)))
    if any(str(file).endswith((".egg-link", "direct_url.json")) and
           '"editable": true' in (site / file).read_text(errors="replace") for file in found):
        raise Unusable(f"{package.metadata['Name']} is installed in editable form, so its files are not in {site}; "
                         "install it without --editable")
    return found


def mixture(folder: pathlib.Path, old: Environment, new: Environment, moved: FrozenSet[str]) -> Environment:
    """An environment with the `moved` packages of `new` and the others of `old`."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([old.base, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = Environment(folder).site
    for name in sorted({*old.packages, *new.packages}):
        origin = new if name in moved or (name == VENVS and name not in old.packages) else old
        if name not in origin.packages:
            continue
        for file in _files(origin.packages[name], origin.site):
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.exists():  # packages of one namespace may share a file
                continue
            try:
                os.link(origin.site / file, target)
            except OSError:  # another file system
                shutil.copy2(origin.site / file, target)
    return Environment(folder)
