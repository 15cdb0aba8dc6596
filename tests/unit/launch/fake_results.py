"""Results and ends of the fake worker that all of its kinds of runs share."""
import json
import os
import signal
import sys
import time


def write(path, value):
    with open(path + ".tmp", "w") as file:
        json.dump(value, file)
    os.replace(path + ".tmp", path)


def result(spec, **changes):
    train = spec["train"]
    steps = [
        {
            "step": i,
            "timed": i >= train["warmup"],
            "loss": 5 - 0.1 * i,
            "grad_norm": 1.0,
            "tokens": 128,
            "seconds": 0.01,
            "phases": {"forward": 0.005},
        }
        for i in range(train["warmup"] + train["steps"])
    ]
    ok = {"schema_version": 1, "status": "ok", "reason": "", "steps": steps, "tokens_per_second": 12800.0}
    seconds = float(os.environ.get("FAKE_STEP_SECONDS", "0.01"))
    ok.update({"step_seconds": seconds, "device": {"type": "cpu", "name": "fake"}, "plugins": [], **changes})
    if "FAKE_MEMORY" in os.environ:
        ok["memory"] = {"peak_allocated": 1e8, "process": 1e9}
    return ok


def end_by(number):
    sys.stdout.flush()
    os.kill(os.getpid(), number)


def hang(spec, out):
    # A child that ignores SIGTERM: only the end of the whole group ends it.
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
    write(out + "/child.json", child)
    time.sleep(1000)


def out_of_memory(spec):
    return result(spec, status="oom", reason="too large", requested_bytes=7, steps=[])
