#!/usr/bin/env -S python3 -I -S
"""The program of an external rung: its argument is its end. It writes its arguments and environment to given.json."""
import json
import os
import shutil
import signal
import sys
import time

OUT = os.environ["OPTRUSH_OUT"]


def result(**changes):
    with open(os.environ["OPTRUSH_SPEC"]) as file:
        train = json.load(file)["train"]
    steps = [{"step": i, "timed": i >= train["warmup"], "loss": 5 - 0.1 * i, "grad_norm": 1.0, "tokens": 128,
              "seconds": 0.02, "phases": {}} for i in range(train["warmup"] + train["steps"])]
    return {"schema_version": 1, "status": "ok", "reason": "", "steps": steps, "tokens_per_second": 6400.0,
            "step_seconds": 0.02, **changes}


def write(value):
    with open(OUT, "w") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))


def without(key):
    value = result()
    del value[key]
    return value


def crash():
    print("the last words", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


def long_line():
    print("x" * 199 + "é" * 50)
    sys.exit(3)


def exit3():
    print("before", "no \x1b[1mscript", sep="\n")
    sys.exit(3)


ENDS = {
    "write": lambda: write(result()),
    "print": lambda: print("hello {\n", json.dumps(result()), sep=""),
    "pretty": lambda: print(json.dumps({"schema_version": 0}), json.dumps(result(), indent=2), sep="\n"),
    "silent": lambda: None,
    "junk": lambda: write('{"status": "ok'),
    "odd": lambda: write(result(splendid=True)),
    "rateless": lambda: write(without("tokens_per_second")),
    "lossless": lambda: write(result(steps=[])),
    "wrong": lambda: write(result(steps=[{**step, "loss": 9.0} for step in result()["steps"]])),
    "skip": lambda: write({"schema_version": 1, "status": "skipped", "reason": "no such framework"}),
    "crash": crash,
    "hang": lambda: time.sleep(1000),
    "removes": lambda: shutil.rmtree(os.path.dirname(OUT)),
    "exit3": exit3,
    "long_line": long_line,
}

with open(os.path.join(os.path.dirname(OUT), "given.json"), "w") as given:
    json.dump({"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}, given)
ENDS[sys.argv[1]]()
