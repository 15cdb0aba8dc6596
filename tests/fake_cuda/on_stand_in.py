"""Helpers of the tests in this folder: run a command on the stand-in, and read the counts of its processes."""
import json
import os
import subprocess
import sys
from pathlib import Path

HERE, BUILD = Path(__file__).resolve().parent, Path(os.environ["OPTRUSH_BUILD_DIR"])
OPTRUSH = BUILD / "bin/optrush"


def on_stand_in(counts, *command, arch="sm_90", memory="", devices=1, environment=None, trace=""):
    """Runs the command; each of its processes appends a line to the file `counts`."""
    options = ["--arch", arch, "--memory", memory, "--devices", devices, "--report", counts, "--trace", trace]
    words = [sys.executable, HERE / "on_fake_cuda.py", *options, "--", *command]
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                          env={**os.environ, **(environment or {})})


def counted(counts):
    return [json.loads(line) for line in counts.read_text().splitlines()]


def assert_no_faults(counts):
    faults = [line["faults"] for line in counted(counts) if line["faults"]]
    assert not faults, json.dumps(faults, indent=1)
