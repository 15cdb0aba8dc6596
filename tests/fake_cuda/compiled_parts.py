"""Helpers of the tests of compiled code: run an experiment on the stand-in and read its compiled kernels.

Each test has its own cache, because a compiler that folds constants on the stand-in stores wrong ones. The kernels are
read before the cache is removed."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from on_stand_in import BUILD, HERE, assert_no_faults, on_stand_in

SHARED = {"sm_80": 163 << 10, "sm_90": 227 << 10}  # bytes of a block
MOST_REGISTERS = 255


def inside(out, script, by_value, words):
    """Runs on the stand-in: compiles, loads and launches, then lists the kernels of the cache."""
    ran = subprocess.run([BUILD / "bin/optrush", "run", HERE / script, "--out", out, *words], check=False)
    units = Path(os.environ["OPTRUSH_CACHE"]) / "inductor"
    command = [sys.executable, HERE.parents[1] / "tools/gpu/kernels", "--json", units]
    (out / "kernels.json").write_bytes(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    if by_value:
        subprocess.run([sys.executable, HERE / "inductor_lower.py", units, out / "python"], check=True)
    return ran.returncode


def train(script, arch, out, words, by_value=False):
    """Trains on the stand-in; each process writes its own trace."""
    counts = out / "counts.jsonl"
    # Most of the time of g++ for a small unit is for the code that calls the kernels.
    done = on_stand_in(counts, sys.executable, __file__, out, script, by_value, *words, arch=arch,
                       trace=out / "trace.%p", environment={"AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL": "O0"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert_no_faults(counts)


def results_of(report, but=None):
    """{rung: result}; all are ok except the rung `but`, which is expected to fail."""
    names = {variant["index"]: variant["name"] for variant in json.loads((report / "variants.json").read_text())}
    results = {names[int(file.parent.name.split("-")[0])]: json.loads(file.read_text())
               for file in report.glob("runs/*-r1/result.json")}
    bad = {name: result["reason"] for name, result in results.items() if result["status"] != "ok" and name != but}
    assert not bad, bad
    return results


def traces_of(out):
    """Pairs of a process's command and its calls to the device."""
    for file in out.glob("trace.*"):
        for process in file.read_text().split("process ")[1:]:
            yield process.split("\n", 1)


def traces_by_rung(out):
    """{name of a run's folder without number and round: the trace of its first round}"""
    return {command.split("-r1/spec.json")[0].rsplit("/", 1)[1].split("-", 1)[1]: trace
            for command, trace in traces_of(out) if "-r1/spec.json" in command}


def plans_of(report):
    """{rung: plan}"""
    variants, plans = (json.loads((report / f"{name}.json").read_text()) for name in ("variants", "plans"))
    return {variant["name"]: plan for variant, plan in zip(variants, plans)}


def launched_in(trace):
    return set(re.findall(r"^launch (triton_\w+)", trace, re.MULTILINE))


def kernels_fit(arch, out):
    """Each kernel is of this architecture, was launched by a run, and fits a multiprocessor."""
    kernels = json.loads((out / "kernels.json").read_text())
    halves = {}
    for kernel in kernels:
        unit, half = kernel["place"].rsplit("/", 1)
        halves.setdefault(unit, set()).add(half)
    assert kernels and all(found == {"forward", "backward"} for found in halves.values()), halves
    launched = set().union(*(launched_in(trace) for command, trace in traces_of(out) if "/spec.json" in command))
    for kernel in kernels:
        assert kernel["arch"] == arch, kernel
        assert kernel["name"] in launched, f"{kernel} was never launched"
        assert kernel["registers"] <= MOST_REGISTERS and kernel["stack"] == 0, kernel
        assert kernel["shared"] <= SHARED[arch], kernel
    most = {what: max(kernel[what] for kernel in kernels) for what in ("registers", "stack", "shared")}
    print(f"{arch}: {len(halves)} units, {len(kernels)} kernels; at most {most['registers']} registers, "
          f"{most['stack']} bytes of stack, {most['shared']} bytes of shared memory", flush=True)
    return len(halves)


if __name__ == "__main__":
    sys.exit(inside(Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "True", sys.argv[4:]))
