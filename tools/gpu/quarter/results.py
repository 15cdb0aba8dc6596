"""Reads what a step has written: runs of a report, tests, cases, and the parts of a set-up."""

import json
import re
import statistics
from collections import defaultdict


def read(file):
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return None


def variants_of(report):
    return {variant["index"]: variant for variant in read(report / "variants.json") or []}


def runs_of(report):
    """The results of a report's runs by the name of the rung, also if no report was written."""
    variants = variants_of(report)
    found = defaultdict(list)
    for file in sorted(report.glob("runs/*/result.json")):
        index, result = int(file.parent.name.split("-")[0]), read(file)
        if result and index in variants and re.search(r"-r\d+$", file.parent.name):  # no run of the gate
            found[variants[index]["name"]].append(result)
    return found


def speed_of(results):
    return statistics.median(result["tokens_per_second"] for result in results)


def rungs_of(report):
    """The final result of each rung: its speed, memory and launches, or the reason why there is none."""
    rungs = {}
    for name, results in runs_of(report).items():
        good = [result for result in results if result["status"] == "ok" and result.get("tokens_per_second")]
        if not good:
            # The first round has the reason; later rounds may only state that they did not run.
            rungs[name] = {"status": results[0]["status"], "reason": results[0]["reason"]}
            continue
        memory, costs = good[0].get("memory") or {}, good[0].get("costs")
        rungs[name] = {"status": "ok", "rounds": len(good), "tokens_per_second": speed_of(good),
                       "peak_bytes": memory.get("peak_allocated"), "launches": costs and costs["total"]["launches"],
                       "flops_per_token": (good[0].get("flops_per_token") or {}).get("mfu")}
    return rungs


LIKE_FOR_LIKE = "bf16 weights"  # solves the problem of the programs of PyTorch


def best_rungs(machine):
    """Rungs for more rounds: of ours the one that compares like for like and the fastest; the two fastest programs of
    others."""
    report = machine / "reports/flagship/ladder"
    others = {variant["name"] for variant in variants_of(report).values() if variant.get("external")}
    speeds = {name: rung["tokens_per_second"] for name, rung in rungs_of(report).items() if rung["status"] == "ok"}
    fastest = sorted(speeds, key=speeds.get, reverse=True)
    ours = [name for name in fastest if name not in others and name not in ("base", LIKE_FOR_LIKE)]
    return (LIKE_FOR_LIKE, *ours[:1]), tuple(name for name in fastest if name in others)[:2]


def sustained_of(doctor):
    """The fastest product over seconds of each type on the GPU: {dtype: FLOP/s}."""
    fastest = {}
    for product in (doctor.get("peak") or {}).get("sustained") or []:
        if product["gpu"]:
            fastest[product["dtype"]] = max(fastest.get(product["dtype"], 0), product["flops_per_second"])
    return fastest


def cases_left(outputs):
    """The number of cases for which a check had no time."""
    check = read(outputs / "check.json")
    return check["counts"]["not run"] if check else 0


def setup_of(report):
    """The median of each part of a run before its first step, over the runs that ended well: {part: seconds, "all":
    seconds, "page_faults": number}."""
    parts = defaultdict(list)
    for file in sorted(report.glob("runs/*-r*/metrics.jsonl")):
        lines = (json.loads(line) for line in file.read_text().splitlines() if line.endswith("}"))
        event = next((line for line in lines if line.get("event") == "setup"), None)
        result = read(file.with_name("result.json"))
        if not event or not result or result["status"] != "ok":
            continue
        parts["all"].append(result["setup_seconds"])
        measured = event["seconds"] | {what: event[what] for what in ("user_seconds", "system_seconds", "page_faults")}
        for part, spent in measured.items():
            parts[part].append(spent)
    return {part: statistics.median(spent) for part, spent in parts.items()}
