"""float8 on the stand-in: LibTorch accepts its products, and cuBLASLt gets the asked sums and scales.

With one scale the forward multiplies e4m3 by e4m3, the backward e4m3 by e5m2."""
import tempfile
from pathlib import Path

from compiled_parts import plans_of, results_of, traces_by_rung
from on_stand_in import HERE, OPTRUSH, assert_no_faults, on_stand_in

STEPS, BLOCKS = 3, 2
OF_THE_BATCH = 3  # launches that move the batch to the device; a plan leaves them out
# Launches at the end of a step, which keep the largest values; a run leaves them out.
AT_THE_END = {"delayed": 5, "kept": 5, "selected": 5, "recomputed": 5, "ranks": 6}
FAST = {"none": set(), "forward": {"e4m3 e4m3"}, "all": {"e4m3 e4m3", "e4m3 e5m2"}}

# cuBLASLt's first matrix is the second factor: x and gradients by W in blocks, then both in groups for gradients of W.
VEC128, BLK128X128 = 4, 5
IN_GROUPS = {("e4m3 e4m3", f"scales {BLK128X128} {VEC128}"), ("e4m3 e4m3", f"scales {VEC128} {VEC128}")}


def products_of(trace):
    """{("e4m3 e4m3", settings)} of the 8-bit products"""
    found = set()
    for line in trace.splitlines():
        if line.startswith("call cublasLtMatmul") and "e4m3" in line:
            shapes, settings = line.split(" epilogue ")
            types = sorted(word for word in shapes.split() if word in ("e4m3", "e5m2"))
            found.add((" ".join(types), settings.partition(" ")[2]))
    return found


def main(folder):
    ended = on_stand_in(folder / "counts", OPTRUSH, "run", HERE / "float8.lua", "--out", folder, devices=2,
                        trace=folder / "trace.%p")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert_no_faults(folder / "counts")
    results = results_of(folder / "float8/local")
    assert all(result["status"] == "ok" for result in results.values()), results
    traces = traces_by_rung(folder)
    for name, fast in FAST.items():
        expected = {(types, "fast sums" if types in fast else "") for types in FAST["all"]}
        assert products_of(traces[name]) == expected, (name, products_of(traces[name]))
    assert products_of(traces["blockwise"]) == IN_GROUPS, products_of(traces["blockwise"])
    assert "launch void quantize_groups" in traces["blockwise"], traces["blockwise"]
    # A plugin that keeps outputs may copy the product and what norms write, but not the gradients.
    glu, norm = {"rounded_glu_forward", "rounded_glu_backward"}, {"rounded_norm"}
    for name, kernels in {"delayed": glu | norm, "recomputed": glu | norm, "ranks": glu | norm,
                          "selected": norm, "kept": {"rounded_glu_backward"}, "forward": set()}.items():
        found = {kernel for kernel in glu | norm if f"launch void {kernel}" in traces[name]}
        assert found == kernels, (name, found)
    norms = {name: traces[name].count("launch void rounded_norm") for name in ("delayed", "selected")}
    assert norms == {"delayed": STEPS * BLOCKS * 2, "selected": STEPS * BLOCKS}, norms
    # After an update the largest value of W is known, as those of the other tensors are.
    first, *later = traces["delayed"].split("launch prepare(")
    assert "largest_parts" in first and later and "largest_parts" not in "".join(later), later
    report = folder / "float8/local"
    for name, plan in plans_of(report).items():
        of_run, of_plan = results[name]["costs"]["total"], plan["costs"]["total"]
        assert of_run["matmul_flops"] == of_plan["matmul_flops"], (name, of_run, of_plan)
        more = of_run["launches"] + AT_THE_END.get(name, 0) - of_plan["launches"]
        assert 0 <= more <= OF_THE_BATCH, (name, of_run, of_plan)


with tempfile.TemporaryDirectory() as scratch:
    main(Path(scratch))
