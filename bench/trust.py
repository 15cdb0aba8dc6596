"""How far can a verdict be trusted? Ladders of equal rungs, and rungs with a planted slowdown.

    python bench/trust.py [--ladders 40] [--rungs 10] [--shares 0.02 0.03 0.05] [--turns on|off] [--load 0] [--json FILE]

Each ladder has a base and rungs that stand on it. In one of equal rungs every "faster" or "slower" is false: at most
5 % of the rungs should get one. In one with planted slowdowns each rung burns a known share of its step (the plugin of
tests/fixtures/plugins/burns.cpp) and should be called slower. --load keeps so many cores busy meanwhile. The plugin is
built by `ninja fixture_burns`.
"""

import argparse
import contextlib
import json
import multiprocessing
import pathlib
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
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


def measure(options, shares):
    """Verdict and half width (in logarithms) of each rung against the base, and the seconds that the ladder took."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        script = folder / "trust.lua"
        # Rungs must differ: a share of 1e-9 of a step is none.
        listed = ", ".join(f"{share + (i + 1) * 1e-9:.12f}" for i, share in enumerate(shares))
        script.write_text(SCRIPT.format(steps=options.steps, shares=listed, within=options.within, at_most=options.at_most))
        started = time.monotonic()
        command = [options.build / "bin" / "optrush", "run", script, "--out", folder, "--device", "cpu",
                   "--plugin-path", options.build / "tests" / "measured", "--turns", options.turns]
        subprocess.run(command, check=True, capture_output=True)
        seconds = time.monotonic() - started
        results = json.loads((folder / "trust" / "local" / "results.json").read_text())
    return [row["vs_previous"]["speed"] for row in results["rows"][1:]], seconds


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options.add_argument("--ladders", type=int, default=40)
    options.add_argument("--rungs", type=int, default=10)
    options.add_argument("--shares", type=float, nargs="*", default=[0.02, 0.03, 0.05])
    options.add_argument("--steps", type=int, default=10)
    options.add_argument("--within", type=float, default=0.03)
    options.add_argument("--at-most", default="2m")
    options.add_argument("--turns", choices=["on", "off"], default="on")
    options.add_argument("--load", type=int, default=0)
    options.add_argument("--json", type=pathlib.Path)
    given = options.parse_args()
    found = {}
    with loaded(given.load):
        for share in [0.0, *given.shares]:
            speeds, seconds = [], []
            for number in range(given.ladders):
                ladder, took = measure(given, [share] * given.rungs)
                speeds += ladder
                seconds.append(took)
                print(f"share {share}: ladder {number + 1} of {given.ladders}, {took:.0f} s", flush=True)
            verdicts = [speed["verdict"] if speed else "none" for speed in speeds]
            found[share] = {
                "rungs": len(speeds),
                "verdicts": {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
                "median_half_width": statistics.median(
                    (speed["interval"][1] / speed["interval"][0]) ** 0.5 - 1 for speed in speeds if speed and speed["interval"]),
                "median_seconds": statistics.median(seconds),
            }
    for share, line in found.items():
        print(f"{share:.0%} planted: {line['verdicts']}, ±{line['median_half_width']:.1%}, {line['median_seconds']:.0f} s a ladder")
    if given.json:
        given.json.write_text(json.dumps({"options": {k: str(v) for k, v in vars(given).items()}, "found": found}, indent=2))


if __name__ == "__main__":
    main()
