#!/usr/bin/env python3
"""Where the time goes from the start of a worker's process to its first step, by the phases that it writes.

    bench/start_parts.py SPEC [--runs 8] [--worker build/bin/optrush-worker]

SPEC is the spec.json of a run. Milliseconds: the least and the median of the runs. Indented: parts of the set-up, some
of which contain others.
"""
import argparse
import json
import os
import pathlib
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


def parts_of_a_start(worker, spec):
    with tempfile.TemporaryDirectory() as out:
        last = time.time()
        subprocess.run(
            [worker, "run", "--spec", spec, "--out", out],
            env={**os.environ, "OMP_WAIT_POLICY": "passive"},
            stdout=subprocess.DEVNULL,
            check=True,
        )
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
    parser.add_argument("--worker", default="build/bin/optrush-worker")
    arguments = parser.parse_args()
    starts = [parts_of_a_start(arguments.worker, arguments.spec) for _ in range(arguments.runs)]
    for title in starts[0]:
        milliseconds = [1e3 * start[title] for start in starts]
        print(f"{title}: {min(milliseconds):.0f}, median {statistics.median(milliseconds):.0f} ms")


if __name__ == "__main__":
    main()
