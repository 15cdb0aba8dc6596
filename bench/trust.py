#!/usr/bin/env python3
"""How far can a verdict be trusted? Ladders of equal rungs, and of rungs with a planted slowdown.

    python bench/trust.py LOG [--equal 40] [--planted 12] [--turns on off] [--load 0] [--steps 20] [--at-most 60s]
    python bench/trust.py LOG --tell

Each ladder has a base and ten rungs that stand on it. In one of equal rungs every "faster" or "slower" is false: at
most 5 % of the rungs should get one. In one with planted slowdowns each rung burns 2, 3 or 5 % of its step (the plugin
of tests/fixtures/plugins/burns.cpp, built by `ninja fixture_burns`) and should be called slower. Ladders interleaved
and one after the other alternate, so both meet the same machine. --load keeps so many cores busy meanwhile. LOG gets a
line for each ladder. A later start continues the log. --tell prints the table of the stored ladders.
"""

import argparse
import collections
import contextlib
import json
import math
import multiprocessing
import pathlib
import statistics
import subprocess
import tempfile
import time

from compare import student_t

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARES = {"equal": [0.0] * 10, "planted": [0.02] * 3 + [0.03] * 4 + [0.05] * 3}
SCRIPT = """local rush = require "optrush"
local exp = rush.experiment {{
  name = "trust",
  model = rush.llama("nano", {{ n_layers = 2 }}),
  train = {{ micro_batch = 4, seq_len = 128, steps = {steps}, warmup = 2 }},
  plugins = {{ {{ "burns", {{ share = 0 }} }} }},
}}
local rungs = {{}}
for i, share in ipairs {{ {shares} }} do
  rungs[i] = rush.rung("rung " .. i, "burns", {{ share = share }}, {{ replace = "burns", over = "base" }})
end
exp:ladder(rungs)
exp:run {{ within = {within}, at_most = "{at_most}" }}
"""


def burn():
    value = 1.0
    while True:
        value = value * 1.0000001 % 3


@contextlib.contextmanager
def loaded(processes):
    burners = [multiprocessing.Process(target=burn, daemon=True) for _ in range(processes)]
    for burner in burners:
        burner.start()
    yield
    for burner in burners:
        burner.terminate()


def measure(options, kind, turns):
    """The verdicts of a ladder on its rungs, and the seconds that it took."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # Rungs must differ; a share of 1e-9 of a step is negligible.
        shares = ", ".join(f"{share + (i + 1) * 1e-9:.12f}" for i, share in enumerate(SHARES[kind]))
        script = folder / "trust.lua"
        script.write_text(
            SCRIPT.format(steps=options.steps, shares=shares, within=options.within, at_most=options.at_most)
        )
        command = [options.build / "bin" / "optrush", "run", script, "--out", folder, "--device", "cpu"]
        command += ["--plugin-path", options.build / "tests" / "measured", "--interleave", turns]
        started = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        seconds = time.monotonic() - started
        results = json.loads((folder / "trust" / "local" / "results.json").read_text())
    speeds = [row["vs_previous"]["speed"] or {} for row in results["rows"][1:]]
    rungs = [
        {
            "share": share,
            "verdict": speed.get("verdict", "none"),
            "interval": speed.get("interval"),
            "rounds": speed.get("rounds", 0),
        }
        for share, speed in zip(SHARES[kind], speeds, strict=True)
    ]
    return {
        "kind": kind,
        "turns": turns,
        "load": options.load,
        "steps": options.steps,
        "seconds": seconds,
        "rungs": rungs,
    }


def ladders(log):
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def over_base(logs):
    """The geometric mean of ratios, from their logarithms, with one value per ladder, because the rungs of a ladder
    share their base."""
    mean = statistics.fmean(logs) if logs else 0
    if len(logs) < 4:
        return f"{math.exp(mean):.3f}" if logs else "none"
    half = student_t(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(mean):.3f} [{math.exp(mean - half):.3f}, {math.exp(mean + half):.3f}]"


def tell(log):
    """Prints for each condition and planted share: verdicts, the median half width of the intervals, rounds, the
    seconds of a ladder, and the common speed of the rungs of a ladder relative to its base (the mean over ladders and
    its 95 % interval)."""
    rungs, seconds, together = (
        collections.defaultdict(list),
        collections.defaultdict(list),
        collections.defaultdict(list),
    )
    for ladder in ladders(log):
        condition = (ladder["load"], ladder["turns"], ladder["kind"], ladder["steps"])
        seconds[condition].append(ladder["seconds"])
        for rung in ladder["rungs"]:
            rungs[(*condition, rung["share"])].append(rung)
        for share in {rung["share"] for rung in ladder["rungs"]}:
            ratios = [
                math.sqrt(math.prod(rung["interval"]))
                for rung in ladder["rungs"]
                if rung["share"] == share and rung["interval"]
            ]
            if ratios:
                together[(*condition, share)].append(statistics.fmean(map(math.log, ratios)))
    print(
        "| load | turns | steps | planted | rungs | faster | slower | no difference | can't tell | half width | "
        "rounds | s a ladder | over the base |"
    )
    print("|---:|:---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|:---|")
    for (load, turns, kind, steps, share), found in sorted(rungs.items()):
        count = collections.Counter(rung["verdict"] for rung in found)
        verdicts = " | ".join(str(count[verdict]) for verdict in ("faster", "slower", "no difference", "can't tell"))
        widths = [(rung["interval"][1] / rung["interval"][0]) ** 0.5 - 1 for rung in found if rung["interval"]]
        width = f"{statistics.median(widths):.1%}" if widths else "none"
        rounds = statistics.median(rung["rounds"] for rung in found)
        took = statistics.median(seconds[load, turns, kind, steps])
        print(
            f"| {load} | {turns} | {steps} | {share:.0%} | {len(found)} | {verdicts} | {width} | {rounds:g} | "
            f"{took:.0f} | {over_base(together[load, turns, kind, steps, share])} |"
        )


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("log", type=pathlib.Path)
    options.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options.add_argument("--equal", type=int, default=40, help="ladders of equal rungs, of each kind of turns")
    options.add_argument("--planted", type=int, default=12, help="ladders of planted slowdowns, of each kind of turns")
    options.add_argument("--turns", choices=["on", "off"], nargs="+", default=["on", "off"])
    options.add_argument("--load", type=int, default=0)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--within", type=float, default=0.02)
    options.add_argument("--at-most", default="60s")
    options.add_argument("--tell", action="store_true")
    given = options.parse_args()
    wanted = {
        (kind, turns): count
        for kind, count in (("equal", given.equal), ("planted", given.planted))
        for turns in given.turns
        if count > 0
    }
    with loaded(0 if given.tell else given.load):
        while not given.tell:
            done = collections.Counter(
                (ladder["kind"], ladder["turns"])
                for ladder in ladders(given.log)
                if (ladder["load"], ladder["steps"]) == (given.load, given.steps)
            )
            # The condition with the smallest completed share comes next.
            condition = min(wanted, key=lambda one: done[one] / wanted[one])
            if done[condition] >= wanted[condition]:
                break
            ladder = measure(given, *condition)
            with given.log.open("a") as log:
                print(json.dumps(ladder), file=log)
            print(
                f"{condition[0]}, turns {condition[1]}: {done[condition] + 1} of {wanted[condition]}, "
                f"{ladder['seconds']:.0f} s",
                flush=True,
            )
    tell(given.log)


if __name__ == "__main__":
    main()
