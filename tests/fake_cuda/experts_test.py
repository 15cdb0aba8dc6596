"""grouped_experts on the stand-in: no step waits for the device, and the host reads no row count.

A step has the planned FLOPs and launches. Each phase starts as many kernels as planned, and each operator starts its
kernel as often as the plan calls it."""
import json
import tempfile
from pathlib import Path

from on_stand_in import HERE, OPTRUSH, assert_no_faults, on_stand_in

STEPS, TIMED = 5, 3  # of experts.lua; the first timed step
OF_THE_BATCH = 3  # launches that move the batch to the device; a plan leaves them out


# {part of a kernel's or library function's name: the operators that it works for}
KERNELS = {
    "prepare_grouped_gemm_data": ["_grouped_mm"], "GemmUniversal": ["_grouped_mm"], "cublasGemm": ["mm", "bmm"],
    "CatArray": ["cat", "stack"], "reduce_kernel": ["sum", "mean"], "indexFunc": ["index_add"],
    "DeviceScanKernel": ["cumsum"], "softmax_warp_forward": ["_softmax", "_log_softmax"],
    "softmax_warp_backward": ["_softmax_backward_data", "_log_softmax_backward_data"], "radixSort": ["sort"],
    "gatherTopK": ["topk"], "silu_kernel": ["silu"], "silu_backward_kernel": ["silu_backward"],
    "embedding_backward": ["embedding_dense_backward"], "nll_loss_forward": ["nll_loss_forward"],
    "nll_loss_backward": ["nll_loss_backward"],
}


def started(trace):
    """{phase: kernels, products and device copies of a timed step}"""
    (lines,) = [process.splitlines() for process in trace.read_text().split("\nprocess ")
                if "grouped-r1/spec.json" in process.split("\n", 1)[0] and "\ntime" in process]
    marks = [number for number, line in enumerate(lines) if line == "time"]
    each = len(marks) // STEPS
    bounds = marks[TIMED * each:(TIMED + 1) * each]
    words = ("launch ", "call ", "copy device to device ")
    phases = [[line for line in lines[start:end] if line.startswith(words)] for start, end in zip(bounds, bounds[1:])]
    return dict(zip(("data", "forward", "backward", "bookkeeping", "optimizer"), phases))


def each_operator_starts_its_kernel(phases, operators):
    lines = phases["forward"] + phases["backward"]
    for kernel, names in KERNELS.items():
        if kernel == "indexFunc" and any("tma_scatter_kernel" in line for line in lines):
            continue  # torch 2.15 has several kernels for index_add
        count = sum(kernel in line for line in lines)
        calls = sum(operators[f"aten::{name}"]["calls"] for name in names)
        planned = f"the plan calls {' and '.join(names)} {calls} times"
        assert count == calls > 0, f"{kernel} was started {count} times, and {planned}"


def main(folder):
    counts = folder / "counts.jsonl"
    ended = on_stand_in(counts, OPTRUSH, "run", HERE / "experts.lua", "--out", folder, trace=folder / "trace")
    # The gate's reference has the plain experts. The host reads their row counts, which are no numbers here.
    assert "grouped, gate reference: failed" in ended.stdout + ended.stderr, ended.stdout + ended.stderr
    assert_no_faults(counts)
    report = folder / "experts/local"
    plan = json.loads((report / "plans.json").read_text())[1]
    (file,) = report.glob("runs/*grouped-r1/result.json")
    result = json.loads(file.read_text())
    assert result["status"] == "ok", result
    assert not any("one by one" in note for note in result["notes"]), result["notes"]
    total, planned = result["costs"]["total"], plan["costs"]["total"]
    assert total["host_waits"] == 0, total
    assert total["matmul_flops"] == planned["matmul_flops"], (total, planned)
    costs = (result["costs"], plan["costs"])
    counted, planned = ({name: of["launches"] for name, of in each["phases"].items()} for each in costs)
    assert counted.pop("data") == planned.pop("data") + OF_THE_BATCH, (counted, planned)
    assert counted == planned, (counted, planned)
    phases = started(folder / "trace")
    launched = {name: len(lines) for name, lines in phases.items()}
    assert {name: launched[name] for name in planned} == planned, (launched, planned)
    each_operator_starts_its_kernel(phases, plan["costs"]["operators"])


with tempfile.TemporaryDirectory() as scratch:
    main(Path(scratch))
