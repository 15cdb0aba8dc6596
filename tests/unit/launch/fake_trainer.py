#!/usr/bin/env -S python3 -I -S
"""The training script of a user. It trains nothing: its flags determine the losses and the times that it reports, so a
test knows the right verdict on any machine."""
import argparse
import json
import os
import random
import socket
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--slower", type=float, default=1.0, help="factor of each step's time")
parser.add_argument("--loss", type=float, default=0.0, help="added to each loss")
parser.add_argument("--tokens", type=int, default=128)
parser.add_argument("--ranks", type=int, default=1)
parser.add_argument("--fault", default="")
asked = parser.parse_args()
with open(os.environ["OPTRUSH_SPEC"]) as file:
    spec = json.load(file)

# A round has one speed for all, as of a shared machine, and each run its own noise of 0.2 %.
of_round = random.Random(f"round {spec['round']}").uniform(0.9, 1.1)
of_run = random.Random(f"{spec['variant']} {spec['round']} {spec['purpose']}").gauss(1, 0.002)
seconds = 0.02 * of_round * of_run * asked.slower


def step(number):
    line = {"event": "step", "step": number, "timed": number >= spec["train"]["warmup"], "loss": 5 - 0.1 * number,
            "tokens": asked.tokens * asked.ranks, "seconds": seconds}
    line["loss"] += asked.loss
    if asked.fault in ("nan", "bare") and number == 4:
        line["loss"] = None
    if asked.fault == "nan from the start":
        line["loss"] = None
    if asked.fault == "lossless":
        del line["loss"]
    if asked.fault == "no tokens":
        del line["tokens"]
    return line


if asked.fault == "silent":
    sys.exit(0)
if asked.fault == "contradiction":
    steps = [step(number) for number in range(13)]
    for each in steps:
        del each["event"]
    with open(os.environ["OPTRUSH_OUT"], "w") as out:
        json.dump({"schema_version": 1, "status": "ok", "reason": "", "steps": steps, "tokens_per_second": 1e6}, out)
    sys.exit(0)
if asked.fault == "keeps its turn":
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ["OPTRUSH_TURNS"])
    stream = connection.makefile("rw")
    print(json.dumps({"type": "ready", "rank": 0, "ranks": 1, "seconds": 0.01}), file=stream, flush=True)
    stream.readline()
    time.sleep(1000)
with open(os.environ["OPTRUSH_METRICS"], "a", buffering=1) as metrics:
    for number in range(spec["train"]["warmup"] + spec["train"]["steps"]):
        line = json.dumps(step(number))
        print(line.replace("null", "NaN") if asked.fault == "bare" else line, file=metrics)
        if asked.fault == "no tokens":
            time.sleep(1000)
