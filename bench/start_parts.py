#!/usr/bin/env python3
"""Where the time goes from the start of a worker's process to its first step, by the phases that it writes.

    bench/start_parts.py SPEC [--runs 8] [--forked] [--worker build/bin/optrush-worker]

SPEC is the spec.json of a run. Milliseconds: the least and the median of the runs. Indented: parts of the set-up, some
of which contain others. With --forked the workers are forks of one server, as the runs of a round are.
"""
import argparse
import ctypes
import json
import os
import pathlib
import socket
import statistics
import subprocess
import tempfile
import time

PARTS = {
    "loading": "process, libraries, their static initialization",
    "building": "plugins",
    "placing": "model described",
    "warmup": "parameters made, files of the data listed",
}


ENVIRONMENT = {**os.environ, "OMP_WAIT_POLICY": "passive"}


def start_process(words):
    subprocess.run(words, env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=True)


class ForkServer:
    """A fork server, used like the controller's (core/machine/fork_protocol.h)."""

    def __init__(self, worker):
        ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: the forks become children of this process
        here, there = socket.socketpair()
        self.channel = here.makefile("rw")
        subprocess.Popen([worker, "fork-server", "--room", " " * 2048], env=ENVIRONMENT, stdin=there)

    def start(self, words):
        request = {"arguments": words, "log": os.devnull, "environment": {}}
        print(json.dumps(request), file=self.channel, flush=True)
        pid = json.loads(self.channel.readline())["pid"]
        assert json.loads(self.channel.readline())["begun"]
        assert os.waitpid(pid, 0)[1] == 0


def parts_of_a_start(start, worker, spec):
    with tempfile.TemporaryDirectory() as out:
        last = time.time()
        start([worker, "run", "--spec", spec, "--out", out])
        events = [json.loads(line) for line in (pathlib.Path(out) / "metrics.jsonl").read_text().splitlines()]
    begun = {event["name"]: event["time"] for event in events if event.get("event") == "phase"}
    seconds = {}
    for phase, title in PARTS.items():
        seconds[title] = begun[phase] - last
        last = begun[phase]
    seconds["all"] = sum(seconds.values())
    setup = next(event for event in events if event.get("event") == "setup")
    seconds |= {f"  {part}": spent for part, spent in setup["seconds"].items()}
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--forked", action="store_true")
    parser.add_argument("--worker", default="build/bin/optrush-worker")
    arguments = parser.parse_args()
    start = ForkServer(arguments.worker).start if arguments.forked else start_process
    starts = [parts_of_a_start(start, arguments.worker, arguments.spec) for _ in range(arguments.runs)]
    for title in starts[0]:
        milliseconds = [1e3 * start[title] for start in starts]
        print(f"{title}: {min(milliseconds):.0f}, median {statistics.median(milliseconds):.0f} ms")


if __name__ == "__main__":
    main()
