"""compiled_test.py [--all]: the plugin `compile` over others, for GPUs that are not here.

On the stand-in Inductor makes the machine code of each unit's halves for sm_80 and sm_90; the code is linked, loaded and launched.
What each kernel takes of a multiprocessor is read from it. Triton's interpreter then runs the kernels by value on the CPU. The cache is
of this test alone: a compiler that folds constants on the stand-in keeps wrong ones.

--all takes every stack of compiled.lua for both architectures, and the stack of experiments/flagship.lua at its real width."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from on_stand_in import BUILD, HERE, assert_no_faults, on_stand_in

SELECTED = {"sm_90": ["bf16 weights"], "sm_80": ["fused loss"]}
SHARED = {"sm_80": 163 << 10, "sm_90": 227 << 10}  # bytes of a block
MOST_REGISTERS = 255


def inside(out, by_value, words):
    """On the stand-in: compile, load and launch; then what the cache holds, before it is removed."""
    ran = subprocess.run([BUILD / "bin/optrush", "run", HERE / "compiled.lua", "--out", out, *words], check=False)
    units = Path(os.environ["OPTRUSH_CACHE"]) / "inductor"
    command = [sys.executable, HERE.parents[1] / "tools/gpu/kernels", "--json", units]
    kernels = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    (out / "kernels.json").write_bytes(kernels)
    if by_value:
        subprocess.run([sys.executable, HERE / "inductor_lower.py", units, out / "python"], check=True)
    return ran.returncode


def train(arch, out, by_value, words):
    counts = out / "counts.jsonl"
    # The code that calls the kernels is most of what g++ compiles for a small unit.
    done = on_stand_in(counts, sys.executable, __file__, "--inside", out, by_value, *words, arch=arch, trace=out / "trace",
                       environment={"AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL": "O0"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert_no_faults(counts)


def every_stack_trained(out, stacks):
    report = out / "compiled/local"
    names = {variant["index"]: variant["name"] for variant in json.loads((report / "variants.json").read_text())}
    results = {names[int(file.parent.name.split("-")[0])]: json.loads(file.read_text()) for file in report.glob("runs/*-r1/result.json")}
    bad = {name: result["reason"] for name, result in results.items() if result["status"] != "ok"}
    assert not bad, bad
    assert {f"{stack} + compile" for stack in stacks} <= results.keys(), results.keys()


def kernels_fit(arch, out):
    """Each is of this architecture, was launched, and has room."""
    kernels = json.loads((out / "kernels.json").read_text())
    halves = {}
    for kernel in kernels:
        unit, half = kernel["place"].rsplit("/", 1)
        halves.setdefault(unit, set()).add(half)
    assert kernels and all(found == {"forward", "backward"} for found in halves.values()), halves
    launched = set(re.findall(r"\btriton_\w+", (out / "trace").read_text()))
    for kernel in kernels:
        assert kernel["arch"] == arch, kernel
        assert kernel["name"] in launched, f"{kernel} was never launched"
        assert kernel["registers"] <= MOST_REGISTERS and kernel["stack"] == 0 and kernel["shared"] <= SHARED[arch], kernel
    most = {what: max(kernel[what] for kernel in kernels) for what in ("registers", "stack", "shared")}
    print(f"{arch}: {len(halves)} units, {len(kernels)} kernels; at most {most['registers']} registers, {most['stack']} bytes of stack, "
          f"{most['shared']} bytes of shared memory", flush=True)


def values_of(folder):
    return subprocess.run([sys.executable, HERE / "inductor_values.py", folder], capture_output=True, text=True, check=False)


def values_are_those_of_the_graphs(out):
    done = values_of(out / "python")
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout, flush=True)
    # A kernel that computes something else is found.
    kernels = next(file for file in sorted((out / "python").glob("*/forward.kernels.py")) if "libdevice.rsqrt(" in file.read_text())
    shutil.copytree(kernels.parent, out / "wrong/unit")
    (out / "wrong/unit" / kernels.name).write_text(kernels.read_text().replace("libdevice.rsqrt(", "libdevice.sqrt("))
    done = values_of(out / "wrong")
    assert done.returncode == 1 and "of the forward differs by" in done.stderr, done.stdout + done.stderr


def compiled(arch, stacks, width="small"):
    """No stacks: every one."""
    only = [word for stack in stacks for word in ("--only", f"{stack} + compile")]
    with tempfile.TemporaryDirectory() as scratch:
        out, by_value = Path(scratch), width == "small"
        train(arch, out, by_value, ["--arg", f"width={width}", *only])
        every_stack_trained(out, stacks)
        kernels_fit(arch, out)
        if by_value:
            values_are_those_of_the_graphs(out)


def main(everything):
    for arch, stacks in SELECTED.items():
        compiled(arch, [] if everything else stacks)
        if everything:
            compiled(arch, ["whole stack"], "real")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        sys.exit(inside(Path(sys.argv[2]), sys.argv[3] == "True", sys.argv[4:]))
    main(sys.argv[1:] == ["--all"])
