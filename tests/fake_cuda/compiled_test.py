"""compiled_test.py [--all]: the plugin `compile` over other plugins, for GPUs that this machine lacks.

On the stand-in Inductor compiles each unit's halves for sm_80 and sm_90; the code is linked, loaded and launched. The
registers, stack and shared memory of each kernel are read from its code. Triton's interpreter then computes the kernels
on the CPU.

--all runs every stack of compiled.lua for both architectures, and the flagship's stack at full width."""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from compiled_parts import kernels_fit, results_of, train
from on_stand_in import HERE

SELECTED = {"sm_90": ["bf16 weights"], "sm_80": ["fused loss"]}


def values_of(folder):
    command = [sys.executable, HERE / "inductor_values.py", folder]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def computed_values_equal_the_graphs(out):
    done = values_of(out / "python")
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout, flush=True)
    # The comparison finds a kernel that computes something else.
    kernels = next(file for file in sorted((out / "python").glob("*/forward.kernels.py"))
                   if "libdevice.rsqrt(" in file.read_text())
    shutil.copytree(kernels.parent, out / "wrong/unit")
    (out / "wrong/unit" / kernels.name).write_text(kernels.read_text().replace("libdevice.rsqrt(", "libdevice.sqrt("))
    done = values_of(out / "wrong")
    assert done.returncode == 1 and "of the forward differs by" in done.stderr, done.stdout + done.stderr


def compiled(arch, stacks, width="small"):
    """Without `stacks`, every stack."""
    only = [word for stack in stacks for word in ("--only", f"{stack} + compile")]
    with tempfile.TemporaryDirectory() as scratch:
        out, by_value = Path(scratch), width == "small"
        train("compiled.lua", arch, out, ["--arg", f"width={width}", *only], by_value)
        trained = results_of(out / "compiled/local")
        assert {f"{stack} + compile" for stack in stacks} <= trained.keys(), trained.keys()
        kernels_fit(arch, out)
        if by_value:
            computed_values_equal_the_graphs(out)


def main(everything):
    for arch, stacks in SELECTED.items():
        compiled(arch, [] if everything else stacks)
        if everything:
            compiled(arch, ["whole stack"], "real")


if __name__ == "__main__":
    main(sys.argv[1:] == ["--all"])
