"""What the tests of compiled code share: an experiment on the stand-in, and the kernels that it has compiled, which are read before the
cache is removed. The cache is of one test alone: a compiler that folds constants on the stand-in keeps wrong ones."""
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
    """On the stand-in: compile, load and launch; then what the cache holds."""
    ran = subprocess.run([BUILD / "bin/optrush", "run", HERE / script, "--out", out, *words], check=False)
    units = Path(os.environ["OPTRUSH_CACHE"]) / "inductor"
    command = [sys.executable, HERE.parents[1] / "tools/gpu/kernels", "--json", units]
    (out / "kernels.json").write_bytes(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    if by_value:
        subprocess.run([sys.executable, HERE / "inductor_lower.py", units, out / "python"], check=True)
    return ran.returncode


def train(script, arch, out, words, by_value=False):
    """Each process has a trace of its own."""
    counts = out / "counts.jsonl"
    # The code that calls the kernels is most of what g++ compiles for a small unit.
    done = on_stand_in(counts, sys.executable, __file__, out, script, by_value, *words, arch=arch, trace=out / "trace.%p",
                       environment={"AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL": "O0"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert_no_faults(counts)


def results_of(report, but=None):
    """By the rung's name; all are ok, except one that is expected to fail."""
    names = {variant["index"]: variant["name"] for variant in json.loads((report / "variants.json").read_text())}
    results = {names[int(file.parent.name.split("-")[0])]: json.loads(file.read_text()) for file in report.glob("runs/*-r1/result.json")}
    bad = {name: result["reason"] for name, result in results.items() if result["status"] != "ok" and name != but}
    assert not bad, bad
    return results


def traces_of(out):
    """Pairs of a process's command and what it gave the device to do."""
    for file in out.glob("trace.*"):
        for process in file.read_text().split("process ")[1:]:
            yield process.split("\n", 1)


def launched_in(trace):
    return set(re.findall(r"^launch (triton_\w+)", trace, re.MULTILINE))


def kernels_fit(arch, out):
    """Each is of this architecture, was launched by a run, and has room."""
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
        assert kernel["registers"] <= MOST_REGISTERS and kernel["stack"] == 0 and kernel["shared"] <= SHARED[arch], kernel
    most = {what: max(kernel[what] for kernel in kernels) for what in ("registers", "stack", "shared")}
    print(f"{arch}: {len(halves)} units, {len(kernels)} kernels; at most {most['registers']} registers, {most['stack']} bytes of stack, "
          f"{most['shared']} bytes of shared memory", flush=True)
    return len(halves)


if __name__ == "__main__":
    sys.exit(inside(Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "True", sys.argv[4:]))
