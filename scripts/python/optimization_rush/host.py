"""Runs an experiment from Python.

    report = optimization_rush.run("@quickstart", label="a", args={"layers": 4})
    report = optimization_rush.run('local rush = require "optrush" ...', label="b")     # the text of a script
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any, List, Mapping, Optional, Sequence, Union

from .report import Report, read


def program() -> List[str]:
    """The command of optrush: $OPTRUSH, this wheel, the build of this checkout, or the one in PATH."""
    if named := os.environ.get("OPTRUSH"):
        return [named]
    here = pathlib.Path(__file__).resolve().parent
    if (here / "__main__.py").is_file():
        return [sys.executable, "-m", "optimization_rush"]
    for place in (here.parents[2] / "build/bin/optrush", here.parents[4] / "bin/optrush"):
        if place.is_file():
            return [str(place)]
    if found := shutil.which("optrush"):
        return [found]
    raise FileNotFoundError("there is no program optrush; build it with ./optrush setup, install the wheel, or set "
                            "OPTRUSH to its path")


class RunFailed(RuntimeError):
    """The host refused the experiment. `code`: its exit code. The message is the host's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message.strip())
        self.code = code


def run(script: Union[str, pathlib.Path], label: str = "local", args: Optional[Mapping[str, Any]] = None,
        options: Sequence[str] = (), folder: Union[str, pathlib.Path] = ".") -> Report:
    """Runs a script: a path, "@name" of a shipped one, or its text. `args`: the script's --arg. `options`: further
    options of `optrush run`. `folder`: the folder in which reports/ is. A failed rung is a row of the report."""
    text = str(script)
    with tempfile.TemporaryDirectory() as temporary:
        if "\n" in text or "rush." in text:
            file = pathlib.Path(temporary) / "script.lua"
            file.write_text(text, encoding="utf-8")
            text = str(file)
        elif not text.startswith("@"):
            text = str(pathlib.Path(text).resolve())
        words = [word for key, value in (args or {}).items()
                 for word in ("--arg", f"{key}={json.dumps(value) if isinstance(value, bool) else value}")]
        done = subprocess.run([*program(), "run", text, "--label", label, *words, *options], cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    made = [line.strip() for line in done.stdout.splitlines() if line.strip().endswith("report.md")]
    if not made:
        raise RunFailed(done.returncode, done.stderr or done.stdout)
    return read(pathlib.Path(folder) / pathlib.Path(made[-1]).parent)
