"""Cost of the package optimization_rush for a training script: what a measured step takes more than its body.

usage: python bench/harness_overhead.py

It makes steps with four phases and a loss but without work, with the files that the host reads. So all of their time is
the cost. It prints the median of repeats, and the shortest step of which it is 0.2 %. The time that a step reports
contains a part of it: the clock and the phases.
"""
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scripts/python"))
from optimization_rush import steps  # noqa: E402

STEPS, REPEATS, SHARE = 2000, 7, 0.002
NAMES = {"OPTRUSH_SPEC": "spec.json", "OPTRUSH_OUT": "result.json", "OPTRUSH_METRICS": "metrics.jsonl"}


def microseconds():
    """Of one step without work."""
    began = time.perf_counter()
    for step in steps(tokens=1, count=STEPS):
        for name in ("data", "forward", "backward", "optimizer"):
            with step.phase(name):
                pass
        step.loss = 1.0
    return (time.perf_counter() - began) / STEPS * 1e6


def main():
    without = statistics.median(microseconds() for _ in range(REPEATS))
    with tempfile.TemporaryDirectory() as folder:
        for name, file in NAMES.items():
            os.environ[name] = os.path.join(folder, file)
        with open(os.environ["OPTRUSH_SPEC"], "w") as text:
            json.dump({"train": {"warmup": 0, "steps": STEPS}}, text)
        measured = statistics.median(microseconds() for _ in range(REPEATS))
        with open(os.environ["OPTRUSH_OUT"]) as text:
            reported = 1e6 * json.load(text)["step_seconds"]
    print(f"without the host: {without:.1f} us per step")
    for what, cost in {"measured": measured, "in its time": reported}.items():
        print(f"{what + ':':17} {cost:.1f} us per step, {SHARE:.1%} of a step of {cost / SHARE / 1e3:.0f} ms")


if __name__ == "__main__":
    main()
