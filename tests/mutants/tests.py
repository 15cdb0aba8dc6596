"""The tests of a build by their names in ctest, run one at a time with or without a mutant."""
import json
import mmap
import os
import re
import resource
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

SKIPPED = 77
MOST_BYTES = 12 << 30  # of memory and of a file, so that a mutant that never ends leaves room for others


@dataclass
class Test:
    name: str
    command: list
    folder: str
    environment: dict
    labels: list
    skipped: str  # a pattern of the output of a test that skips itself
    timeout: float


def tests_of(build):
    listed = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, check=True, stdout=subprocess.PIPE)
    found = []
    for test in json.loads(listed.stdout)["tests"]:
        given = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        environment = dict(entry.split("=", 1) for entry in given.get("ENVIRONMENT", []))
        if "command" in test and not given.get("DISABLED"):
            found.append(Test(test["name"], test["command"], given.get("WORKING_DIRECTORY", str(build)), environment,
                              given.get("LABELS", []), "|".join(given.get("SKIP_REGULAR_EXPRESSION", [])),
                              given.get("TIMEOUT", 120)))
    return found


class Runner:
    """Runs tests. A mark in the environment identifies the processes that a test leaves, and they are killed."""

    def __init__(self, folder, count):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.size = count + 1

    def run(self, test, limit, mutant=0):
        """(passed, seconds, numbers of the mutants reached)"""
        reach = self.folder / f"reach.{os.getpid()}"
        reach.write_bytes(bytes(self.size))
        mark = f"OPTRUSH_MUTANT_RUN={os.getpid()}.{time.monotonic_ns()}"
        cache = self.folder / "cache"  # other runs must not use the kernels that a mutant compiled
        marks = dict([mark.split("=")], OPTRUSH_MUTANT=str(mutant), OPTRUSH_MUTANT_REACH=str(reach),
                     OPTRUSH_CACHE=str(cache))
        output = self.folder / f"output.{os.getpid()}"
        start = time.monotonic()
        with open(output, "wb") as log:
            process = subprocess.Popen(test.command, cwd=test.folder, env={**os.environ, **test.environment, **marks},
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                       preexec_fn=settle)
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
        end_all(mark)
        process.wait()
        skipped = test.skipped and re.search(test.skipped, output.read_text(errors="replace"))
        passed = code in (0, SKIPPED) or bool(skipped)
        with open(reach, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as reached:
            return passed, time.monotonic() - start, [number for number in range(1, self.size) if reached[number]]


def settle():
    """Runs in the test's process: sets limits, and restores signals that a campaign in the background ignores."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    for kind in (resource.RLIMIT_DATA, resource.RLIMIT_FSIZE):
        resource.setrlimit(kind, (MOST_BYTES, MOST_BYTES))


def end_all(mark):
    """Kills the processes with the mark until none is left, because they may start others."""
    while marked := [entry for entry in os.listdir("/proc") if entry.isdigit() and _has(entry, mark)]:
        for process in marked:
            try:
                os.kill(int(process), signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)


def _has(process, mark):
    try:
        state = Path("/proc", process, "stat").read_text().rsplit(")", 1)[1].split()[0]
        return state != "Z" and mark.encode() in Path("/proc", process, "environ").read_bytes().split(b"\0")
    except OSError:
        return False
