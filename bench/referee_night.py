#!/usr/bin/env python3
"""A night of the referee with known changes: how many without effect are kept, how many planted gains are found?

    python bench/referee_night.py DIR [--nothing 40] [--at-most 60s] [--gain 0.05] [--for 900] [--seed 1]
    python bench/referee_night.py DIR --tell

The champion is a small program whose step computes for a millisecond and sleeps for 30. A flag --save=P saves P %
of the sleep. Other challengers change nothing, waste time, train wrongly, crash or cannot be planned. They come in a
random order. Undecided ones are tried again at the end, while time is left. --tell prints the table of a session.
"""

import argparse
import collections
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TRAIN = '''"""A polynomial learns a curve. A step also sleeps for 30 milliseconds, less with --save=P for each P."""
import math
import sys
import time

from optimization_rush import steps

pause = 0.03
for flag in sys.argv[1:]:
    if flag.startswith("--save="):
        pause *= 1 - float(flag[7:]) / 100
    if flag.startswith("--crash"):
        sys.exit(f"no such flag: {flag}")
wrong = 1.1 if "--wrong" in " ".join(sys.argv) else 1.0
xs = [i / 64 - 1 for i in range(128)]
weights = [0.0] * 4
for step in steps(tokens=128, count=24):
    loss, gradient = 0.0, [0.0] * 4
    for x in xs:
        powers = [x**k for k in range(4)]
        error = sum(w * p for w, p in zip(weights, powers)) - math.sin(3 * x)
        loss += error * error / 128
        gradient = [g + 2 * error * p / 128 for g, p in zip(gradient, powers)]
    weights = [w - 0.2 * wrong * g for w, g in zip(weights, gradient)]
    time.sleep(pause)
    step.loss = loss
'''
GAINS, WASTES = (6, 8, 12, 20), (-5, -10, -20)
PLUGINS = ("fused_adamw", "flash_attention", "mixed_precision", "compile")
MISTAKES = ('rush.rung("typing error", { arg = "--save=3" })', 'rush.rung("no table", "--save=3")',
            'rush.rung("a model", { modle = {} })', 'rush.rung("unfinished", { args = "--save=3" ')


def challengers(nothing):
    """Groups the challengers by their effect."""
    return {**{f"NOTHING_{number}=1": "nothing" for number in range(nothing)},
            **{f"--save={gain}": "gain" for gain in GAINS}, **{f"--save={waste}": "waste" for waste in WASTES},
            **{f"--wrong={number}": "wrong" for number in range(3)},
            **{f"--crash={number}": "crash" for number in range(2)},
            **dict.fromkeys((*PLUGINS, *(mistake.strip() for mistake in MISTAKES)), "no plan")}


def referee(folder, *words):
    command = [str(ROOT / "build/bin/optrush"), "referee", "session", *words]
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def night(asked):
    asked.folder.mkdir(parents=True, exist_ok=True)
    (asked.folder / "train.py").write_text(TRAIN)
    end = time.monotonic() + asked.seconds
    if not (asked.folder / "session/session.jsonl").is_file():
        referee(asked.folder, "init", "--program", "--seq-len", "128", "--steps", "10", "--warmup", "2", "--gain",
                str(asked.gain), "--", "python", "train.py")
    names = list(challengers(asked.nothing))
    random.Random(asked.seed).shuffle(names)
    for turn in range(2):
        undecided = []
        for name in names:
            if time.monotonic() > end:
                break
            made = json.loads(referee(asked.folder, "try", "--json", "--at-most", asked.at_most, "--", name))
            print(made["sentence"], flush=True)
            if made["answer"] == "undecided":
                undecided.append(name)
        names = undecided
    print(referee(asked.folder, "report"))


def tell(asked):
    made = json.loads(referee(asked.folder, "report", "--json"))
    kinds = challengers(asked.nothing)
    answers = collections.defaultdict(collections.Counter)
    logs, seconds = [], []
    for attempt in made["all"]:
        if attempt["answer"] is None:  # it is being tried
            continue
        kind = kinds.get(attempt["challenger"], "nothing")
        answers[attempt["challenger"] if kind in ("gain", "waste") else kind][attempt["answer"]] += 1
        seconds.append(attempt["cost"]["seconds"])
        if kind == "nothing" and attempt["speed"]:
            logs.append(math.log(attempt["speed"]["value"]))
    print("| challenger | answers |\n| :--- | :--- |")
    for kind, counted in answers.items():
        print(f"| {kind} | {', '.join(f'{count} {answer}' for answer, count in sorted(counted.items()))} |")
    middle = statistics.median(seconds)
    print(f"\n{made['tries']} tries, {made['seconds'] / 60:.0f} min, a median of {middle:.0f} s a try")
    if len(logs) > 1:
        error = statistics.stdev(logs) / math.sqrt(len(logs))
        mean = math.exp(statistics.fmean(logs))
        print(f"mean ratio of changes without effect: {mean:.4f}x, standard error {error:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--nothing", type=int, default=40, help="challengers without effect")
    parser.add_argument("--at-most", default="60s", help="time limit of a try")
    parser.add_argument("--gain", type=float, default=0.05, help="smallest gain that matters")
    parser.add_argument("--for", dest="seconds", type=float, default=900.0, help="seconds of the night")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tell", action="store_true")
    given = parser.parse_args()
    tell(given) if given.tell else night(given)
