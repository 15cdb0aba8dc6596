#!/usr/bin/env python3
"""A report of many rungs, or of long runs, from one that exists, to see what `optrush report` costs.

    bench/large_report.py reports/EXPERIMENT/LABEL OUT [--rungs 1000] [--steps 100000]

The last rung is repeated, each time on top of the one before, with times that differ; the steps of each run are
repeated. OUT has results.json alone, from which `optrush report OUT` renders.
"""
import argparse
import copy
import json
import pathlib


def repeat_rungs(report, count):
    rungs, variants, runs = report["experiment"]["parts"][0]["rungs"], report["variants"], report["runs"]
    pattern = len(variants) - 1
    of_pattern = [run for run in runs if run["spec"]["variant"] == pattern]
    for index in range(len(variants), count + 1):
        name = f"rung {index}"
        rungs.append({**copy.deepcopy(rungs[-1]), "name": name})
        variant = copy.deepcopy(variants[pattern])
        variant.update(index=index, name=name, previous=index - 1, added=[])
        variant["spec"].update(rung=name, variant=index)
        variants.append(variant)
        report["plans"].append(report["plans"][pattern])
        for run in of_pattern:
            made = copy.deepcopy(run)
            made["id"] = f"{index:02d}-{name.replace(' ', '-')}-r{run['spec']['round'] + 1}"
            made["spec"].update(rung=name, variant=index)
            factor = 1 + 0.01 * ((index * 7919) % 101) / 101
            made["result"]["step_seconds"] *= factor
            made["result"]["tokens_per_second"] /= factor
            runs.append(made)


def repeat_steps(report, count):
    for run in report["runs"]:
        steps, wanted = run["result"]["steps"], count + run["spec"]["train"]["warmup"]
        period = [step for step in steps if step["timed"]]
        for number in range(len(steps), wanted):
            steps.append({**period[number % len(period)], "step": steps[0]["step"] + number})
    for spec in [each["spec"] for each in report["runs"] + report["variants"]] + [report["experiment"]["base"]]:
        spec["train"]["steps"] = count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rungs", type=int)
    parser.add_argument("--steps", type=int)
    arguments = parser.parse_args()
    report = json.loads((arguments.report / "results.json").read_text())
    if arguments.rungs:
        repeat_rungs(report, arguments.rungs)
    if arguments.steps:
        repeat_steps(report, arguments.steps)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "results.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main()
