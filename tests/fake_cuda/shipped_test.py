"""shipped_test.py ["SCRIPT, CARD"...]: a few steps of shipped experiments at full size on the stand-in.

A rung trains to its end without a fault and uses the predicted memory. A step waits only to read its times; a run waits
once more before its timed steps, if a worker opens the GPU for the next run. Beside attention a step launches exactly
what the plan counts. Its calls to the device equal shipped.json, if that file is of the same torch. compiled_test.py
and gpu_quarter_test.py run compilers and PyTorch's programs. OPTRUSH_UPDATE_GOLDENS=1 writes shipped.json anew."""
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from on_stand_in import HERE, OPTRUSH, assert_no_faults, on_stand_in

EXPERIMENTS, GOLDEN = HERE.parents[1] / "experiments", HERE / "shipped.json"
CARDS = {"H100": 79.1, "H200": 139.8}  # GiB that the card reports
STEPS = {"train.warmup": 2, "train.steps": 1}  # the first step makes tables and caches
KEPT = 1 << 20  # bytes; a larger parameter has no values here and takes no host memory
ACTIVE, RESERVED = 1e-3, 1e-3  # allowed relative differences of a prediction
RESERVED_OF_RANKS = 1e-2  # a plan leaves out the checks that ranks start with the same values
# Allowed in experiments of operators: partial sums of a reduction, which a plan leaves out, and one more segment of the
# allocator.
PARTIAL_SUMS, SEGMENT = 8 << 20, 20 << 20

OF_THE_BATCH = {"launches": 3, "copies": 1}  # at most, to move the batch to the device; a plan leaves them out

FULL = ["--preset", "full"]
UP_TO_BF16_WEIGHTS = ["fused kernels", "fused loss", "bf16 weights"]
LESS_MEMORY = ["full checkpointing", "selective checkpointing", "checkpointing by budget", "sequence 32768",
               "sequence 32768, full checkpointing"]
OPERATORS_ALONE = {"hardware", "swiglu_checkpoint"}
WHOLE_MODELS = {"single_gpu", "versus_pytorch", "flagship", "fsdp"}
# (script, card): options, rungs beside the base
THROUGH_A_REPORT = {
    ("attention", "H100"): ([], [f"S {length} + {form}" for length in (1024, 4096, 16384)
                                 for form in ("plain", "flash", "cuDNN")]),
}
ONE_BY_ONE = {
    ("single_gpu", "H100"): (FULL, ["bf16 autocast, attention flash", "fused AdamW", "attention cudnn", "micro-batch 2",
                                    *UP_TO_BF16_WEIGHTS, "bf16 weights, micro-batch 8", *LESS_MEMORY]),
    ("single_gpu", "H200"): (FULL, ["bf16 autocast", "fused AdamW", "attention flash", "attention cudnn",
                                    "micro-batch 2", "micro-batch 4", *UP_TO_BF16_WEIGHTS,
                                    "bf16 weights, micro-batch 16", *LESS_MEMORY]),
    ("versus_pytorch", "H100"): (FULL, ["fused AdamW", *UP_TO_BF16_WEIGHTS]),
    ("flagship", "H100"): (FULL, ["micro-batch 8", "float8 by kernels"]),
    ("fsdp", "H100"): ([], ["8 ranks + stage 3"]),  # Llama 3.1 8B
    ("hardware", "H100"): ([], ["4097 + fp32", "8192 + bf16", "norm", "position", "attention", "swiglu", "head_loss"]),
    ("swiglu_checkpoint", "H100"): ([], [f"{size} + level {level}"
                                         for size in ("b16 s512 h1024 i4096 x3", "b16 s4096 h4096 i16384 x5")
                                         for level in (0, 1)]),
}
DEVICES = {"fsdp": 8}


def device_work_by_run(folder):
    """{run: summary of the device's work in its second step}, for the first rank.

    A step lasts from its first time mark to the first mark of the next step.
    """
    steps = {}
    for trace in folder.glob("trace.*"):
        command, *lines = trace.read_text().rsplit("process ", 1)[1].splitlines()  # of the last program it executed
        marks = [number for number, line in enumerate(lines) if line == "time"]
        if "/spec.json" not in command or not marks or ("--rank " in command and "--rank 0 " not in command):
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
    counts = {name: count for name, count in counts.items() if count and count != {"copies": 0, "bytes": 0}}
    return counts | {"plan": starts_beside_attention(lines)}


def starts_beside_attention(lines):
    """Kernels, calls and copies of a step without attention, because a library chooses the kernels of attention.

    Data, the gradient norm and the end of a step count for no phase and are left out.
    """
    phases = "\n".join(lines).split("\ntime")[1:-2]
    started = [line for phase in phases if "LpNorm" not in phase for line in phase.splitlines()
               if line.startswith(("launch ", "call ", "copy device to device "))]
    return sum("cudnn graph" not in line and "flash_fwd" not in line and "flash_bwd" not in line for line in started)


def planned_beside_attention(plan, attention):
    """The planned launches. Where heads share keys and values, LibTorch's kernels sum FlashAttention 2's gradients."""
    planned = plan["costs"]["total"]["launches"] - plan["costs"]["phases"]["data"]["launches"]
    for name, of in plan["costs"]["operators"].items():
        if "scaled_dot_product" in name:
            planned -= of["launches"]
            sums = of["launches"] // of["calls"] - 3 if name.endswith("_backward") and attention == "flash" else 0
            planned += of["calls"] * sums
    return planned


def kernel_of_attention(result):
    return next((note.split("'")[1] for note in result["notes"] if note.startswith("attention runs the kernel")), None)


def assert_near(what, predicted, measured, allowed, rest=0):
    apart = abs(predicted - measured)
    allowed = max(allowed * measured, rest)
    assert apart <= allowed, f"{what}: {predicted} bytes were predicted, and the allocator had {measured}"


def compared(script, card, rung, plan, result, step):
    """The part of a rung's step that shipped.json has; the rest is checked here."""
    where = f"{script}, {card}, {rung}"
    if result["status"] == "oom":
        return {"status": "oom"}
    assert result["status"] == "ok", f"{where}: {result['reason']}"
    memory, measured, attention = plan["memory"], result["memory"], kernel_of_attention(result)
    sums, segment = (PARTIAL_SUMS, SEGMENT) if script in OPERATORS_ALONE else (0, 0)
    assert_near(f"{where}, active", memory["peak_bytes"], measured["peak_allocated"], ACTIVE, sums)
    allowed = RESERVED_OF_RANKS if script in DEVICES else RESERVED
    assert_near(f"{where}, reserved", memory["reserved_bytes"], measured["peak_reserved"], allowed, segment)
    planned, counted = plan["costs"]["total"], result["costs"]["total"]
    assert counted["host_waits"] == 0, where
    for what, most in OF_THE_BATCH.items() if script in WHOLE_MODELS else ():
        assert planned[what] <= counted[what] <= planned[what] + most, (where, what, planned[what], counted[what])
    beside = planned_beside_attention(plan, attention)
    assert step["plan"] == beside, f"{where}: {beside} launches were planned, the device got {step}"
    return step | {"attention": attention}


def words_of(options, rungs):
    only = [word for rung in rungs for word in ("--only", rung)]
    return [*options, *only, *[word for name, value in STEPS.items() for word in ("--set", f"{name}={value}")]]


def devices(script, card, folder):
    """Settings of the stand-in for one run or for runs in sequence."""
    return {"memory": int(CARDS[card] * 2**30), "devices": DEVICES.get(script, 1), "trace": folder / "trace.%p",
            "environment": {"FAKE_CUDA_KEEP": str(KEPT)}}


def through_a_report(script, card, options, rungs, folder):
    """One rung runs out of memory, and the others continue."""
    run = [OPTRUSH, "run", EXPERIMENTS / f"{script}.lua", "--device", "cuda", "--rounds", "1", "--out", folder]
    done = on_stand_in(folder / "counts", *run, *words_of(options, rungs), **devices(script, card, folder))
    report = folder / script / "local"
    assert (report / "plans.json").exists(), done.stdout + done.stderr
    assert_no_faults(folder / "counts")
    plans, steps, seen = json.loads((report / "plans.json").read_text()), device_work_by_run(folder), {}
    for path in sorted(report.glob("runs/*-r1")):
        spec, result = (json.loads((path / name).read_text()) for name in ("spec.json", "result.json"))
        rung = spec["rung"]
        seen[rung] = compared(script, card, rung, plans[spec["variant"]], result, steps.get(path.name))
    return seen


def one_by_one(script, card, options, rungs, folder):
    """Plans all rungs for the card, then runs each rung without a report, two at a time."""
    dry_run = [OPTRUSH, "run", EXPERIMENTS / f"{script}.lua", "--dry-run", "--json", "--device", "cuda"]
    planned = on_stand_in(folder / "counts", *dry_run, *words_of(options, rungs), **devices(script, card, folder))
    assert planned.returncode == 0, planned.stderr
    made = json.loads(planned.stdout)[0]

    def run(number):
        variant, plan = made["variants"][number], made["plans"][number]
        out = folder / f"rung{number}"
        out.mkdir()
        # The spec of a rung may set its own steps.
        variant["spec"]["train"] |= {name.removeprefix("train."): value for name, value in STEPS.items()}
        (out / "spec.json").write_text(json.dumps(variant["spec"]))
        done = on_stand_in(out / "counts", OPTRUSH, "worker", "--spec", out / "spec.json", "--out", out / "result",
                           **devices(script, card, out))
        assert (out / "result/result.json").exists(), variant["name"] + done.stdout + done.stderr
        assert_no_faults(out / "counts")
        result, steps = json.loads((out / "result/result.json").read_text()), device_work_by_run(out)
        return compared(script, card, variant["name"], plan, result, next(iter(steps.values()), None))

    chosen = [number for number, variant in enumerate(made["variants"]) if variant["name"] in ("base", *rungs)]
    with ThreadPoolExecutor(2) as threads:
        return {made["variants"][number]["name"]: step for number, step in zip(chosen, threads.map(run, chosen))}


def main(asked):
    found = {}
    for way, cases in ((through_a_report, THROUGH_A_REPORT), (one_by_one, ONE_BY_ONE)):
        for (script, card), (options, rungs) in cases.items():
            name = f"{script}, {card}"
            if asked and name not in asked:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                begun = time.monotonic()
                found[name] = way(script, card, options, rungs, Path(scratch))
                print(f"{name}: {len(found[name])} rungs in {time.monotonic() - begun:.0f} s", flush=True)
            assert found[name].keys() == {"base", *rungs}, found[name].keys()
    torch = ".".join(version("torch").split(".")[:2])
    if os.environ.get("OPTRUSH_UPDATE_GOLDENS"):
        kept = json.loads(GOLDEN.read_text()) if asked else {}
        GOLDEN.write_text(json.dumps(kept | found | {"torch": torch}, indent=1) + "\n")
    expected = json.loads(GOLDEN.read_text())
    if expected["torch"] != torch:
        print(f"shipped.json is of torch {expected['torch']}, so the calls of torch {torch} are not compared with it")
        return
    for where, rungs in found.items():
        for rung, step in rungs.items():
            assert step == expected[where][rung], f"{where}, {rung}: {step}\nshipped.json: {expected[where][rung]}"


main(sys.argv[1:])
