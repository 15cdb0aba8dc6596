#!/usr/bin/env python3
"""A report of many rungs, or of long runs, from one that exists, to see what `optrush report` costs.

    bench/large_report.py reports/EXPERIMENT/LABEL OUT [--rungs 1000] [--runs 7] [--steps 100000]

The last rung of a published report is repeated, each time on top of the one before, with times that differ; the steps
of each run are repeated, with losses and times that differ; of the runs the first are kept. OUT has the files of an
experiment that has just ended, from which `optrush report OUT` renders.
"""
import argparse
import copy
import hashlib
import json
import pathlib

STORED = ("experiment", "variants", "plans", "context")


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
            step = {**period[number % len(period)], "step": steps[0]["step"] + number}
            step["loss"] *= 1 + 1e-3 * (number * 7919 % 101) / 101 - 1e-7 * number
            step["seconds"] *= 1 + 0.03 * (number * 104729 % 997) / 997
            steps.append(step)
    for spec in [each["spec"] for each in report["runs"] + report["variants"]] + [report["experiment"]["base"]]:
        spec["train"]["steps"] = count


def write_folder(report, out):
    def write(name, value):
        text = json.dumps(value, indent=2) + "\n"
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text)
        return hashlib.sha256(text.encode()).hexdigest()

    for name in STORED:
        write(name + ".json", report[name])
    with (out / "journal.jsonl").open("w") as journal:
        for run in report["runs"]:
            for event, part in (("started", "spec"), ("finished", "result")):
                sum_of_file = write(f"runs/{run['id']}/{part}.json", run[part])
                print(json.dumps({"event": event, "run": run["id"], "sha256": sum_of_file}), file=journal)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rungs", type=int)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--steps", type=int)
    arguments = parser.parse_args()
    report = {name: json.loads((arguments.report / f"{name}.json").read_text()) for name in STORED}
    report["runs"] = [json.loads(line) for line in (arguments.report / "runs.jsonl").read_text().splitlines()]
    if arguments.rungs:
        repeat_rungs(report, arguments.rungs)
    if arguments.runs:
        report["runs"] = report["runs"][: arguments.runs]
    if arguments.steps:
        repeat_steps(report, arguments.steps)
    write_folder(report, arguments.out)


if __name__ == "__main__":
    main()
