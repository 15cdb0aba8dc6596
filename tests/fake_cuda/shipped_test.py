"""Shipped experiments in their forms for a GPU and at their own sizes, a few steps of each on the stand-in. A rung trains to its end
without a fault, its memory is what was predicted, a step waits no more than to read its times, and what the step gives the device to
do is what shipped.json says. OPTRUSH_UPDATE_GOLDENS=1 writes that file anew."""
import json
import os
import tempfile
from pathlib import Path

from on_stand_in import HERE, OPTRUSH, assert_no_faults, on_stand_in

EXPERIMENTS, GOLDEN = HERE.parents[1] / "experiments", HERE / "shipped.json"
CARDS = {"H100": 79.1}  # GiB that such a card reports
STEPS = {"train.warmup": 2, "train.steps": 1}  # of the first, tables and caches are made
ACTIVE, RESERVED = 1e-3, 0.05  # relative differences that a prediction may have
CUDNN_RESERVED = 0.1  # predicted with the blocks of FlashAttention, in their order

SHIPPED = {  # (script, card): options, rungs
    ("attention", "H100"): ([], [f"S {length} + {form}" for length in (1024, 4096, 16384) for form in ("plain", "flash", "cuDNN")]),
}


def given_to_the_device(trace):
    """{run: what its second step gave the device to do}, from a step's first mark of time to the next step's."""
    steps = {}
    for process in trace.read_text().split("\nprocess "):
        command, *lines = process.splitlines()
        marks = [number for number, line in enumerate(lines) if line == "time"]
        if "/spec.json" not in command or not marks:
            continue
        each = len(marks) // sum(STEPS.values())
        steps[command.split("/spec.json")[0].rsplit("/", 1)[1]] = summary(lines[marks[each]:marks[2 * each]])
    return steps


def summary(lines):
    words = [line.split() for line in lines]
    counts = {kind: sum(word[0] == kind for word in words) for kind in ("launch", "call", "memset", "wait", "allocate")}
    for way in ("host to device", "device to host", "device to device"):
        copies = [int(word[4]) for word in words if word[0] == "copy" and " ".join(word[1:4]) == way]
        counts[way] = {"copies": len(copies), "bytes": sum(copies)}
    return {name: count for name, count in counts.items() if count and count != {"copies": 0, "bytes": 0}}


def kernel_of_attention(result):
    return next((note.split("'")[1] for note in result["notes"] if note.startswith("attention runs the kernel")), None)


def near(what, predicted, measured, allowed):
    apart = abs(predicted - measured) / measured
    assert apart <= allowed, f"{what}: {predicted} bytes were predicted, and the allocator had {measured}, {apart:.2%} apart"


def run(script, card, options, rungs, folder):
    """{rung: what its step gave the device to do}; everything else is compared here."""
    only = [word for rung in rungs for word in ("--only", rung)]
    settings = [word for name, value in STEPS.items() for word in ("--set", f"{name}={value}")]
    done = on_stand_in(folder / "counts", OPTRUSH, "run", EXPERIMENTS / f"{script}.lua", "--device", "cuda", "--rounds", "1", "--out",
                       folder, *options, *only, *settings, memory=int(CARDS[card] * 2**30), trace=folder / "trace")
    report = folder / script / "local"
    assert (report / "plans.json").exists(), done.stdout + done.stderr
    assert_no_faults(folder / "counts")
    plans, seen, steps = json.loads((report / "plans.json").read_text()), {}, given_to_the_device(folder / "trace")
    for path in sorted(report.glob("runs/*-r1")):
        spec, result = (json.loads((path / name).read_text()) for name in ("spec.json", "result.json"))
        rung = spec["rung"]
        if result["status"] == "oom":  # and the others go on
            seen[rung] = {"status": "oom"}
            continue
        assert result["status"] == "ok", f"{script}, {card}, {rung}: {result['reason']}"
        memory, measured = plans[spec["variant"]]["memory"], result["memory"]
        attention = kernel_of_attention(result)
        near(f"{script}, {card}, {rung}, active", memory["peak_bytes"], measured["peak_allocated"], ACTIVE)
        near(f"{script}, {card}, {rung}, reserved", memory["reserved_bytes"], measured["peak_reserved"],
             CUDNN_RESERVED if attention == "cudnn" else RESERVED)
        assert result["costs"]["total"]["host_waits"] == 0, rung
        seen[rung] = steps[path.name] | {"attention": attention}
    assert seen.keys() == {"base", *rungs}, seen.keys()
    return seen


found = {}
for (script, card), (options, rungs) in SHIPPED.items():
    with tempfile.TemporaryDirectory() as scratch:
        found[f"{script}, {card}"] = run(script, card, options, rungs, Path(scratch))
if os.environ.get("OPTRUSH_UPDATE_GOLDENS"):
    GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
expected = json.loads(GOLDEN.read_text())
for where, rungs in found.items():
    for rung, step in rungs.items():
        assert step == expected[where][rung], f"{where}, {rung}: {step}\nshipped.json: {expected[where][rung]}"
