"""Experiments with the programs of a test, through `optrush run`."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

BUILD, SOURCE = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]), pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
SCRIPT = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "scripts",
  model = rush.llama("nano"),
  data = rush.random(),
  threads = 1,
  train = { micro_batch = 2, seq_len = 16, steps = 6, warmup = 2 },
}
exp:ladder { %s }
exp:run { rounds = 1 }:report()
"""


def rung(name, *command, interleave=True, timeout=600, more=""):
    words = ", ".join(json.dumps(word) for word in ("{python}", *command))
    return (f'rush.external {{ name = "{name}", command = {{ {words} }}, interleave = {str(interleave).lower()}, '
            f'effect = "model", timeout = {timeout}, {more} }}')


@contextlib.contextmanager
def folder_of_programs():
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        for file in (SOURCE / "tests/package/programs").glob("*.py"):
            shutil.copy(file, work)
        yield work


def host(work, script, *options):
    """Runs a script. Returns what the host printed."""
    (work / "scripts.lua").write_text(script)
    environment = {**os.environ, "OPTRUSH_PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("PYTHONPATH", None)  # the host sets it
    done = subprocess.run([BUILD / "bin/optrush", "run", "scripts.lua", "--device", "cpu", *options],
                          capture_output=True, text=True, cwd=work, env=environment)
    return done.stdout + done.stderr


def run(work, rungs, label="local", interleave="on"):
    """The results of the measured runs by rung, and what the host printed."""
    text = host(work, SCRIPT % ", ".join(rungs), "--label", label, "--interleave", interleave)
    results = {}
    for path in (work / f"reports/scripts/{label}/runs").glob("*-r1/result.json"):
        results[json.loads((path.parent / "spec.json").read_text())["rung"]] = json.loads(path.read_text())
    assert results, text
    return results, text
