"""A mixture of experts with grouped_experts through the real path on the stand-in: the host waits for the device in no step, so
it reads no number of rows. A step has the planned FLOPs and launches, each of its phases starts as many kernels, and each operator
starts its own kernel as often as the plan calls it."""
import json
import tempfile
from pathlib import Path

from on_stand_in import HERE, OPTRUSH, assert_no_faults, on_stand_in

STEPS, TIMED = 5, 3  # of experts.lua, and the first that is timed
OF_THE_BATCH = 3  # launches of its way to the device, which a plan leaves out


# Part of the name of the kernel, or of the library's function, that does the work of these operators.
KERNELS = {
    "prepare_grouped_gemm_data": ["_grouped_mm"], "GemmUniversal": ["_grouped_mm"], "cublasGemm": ["mm", "bmm"],
    "CatArray": ["cat", "stack"], "reduce_kernel": ["sum", "mean"], "indexFunc": ["index_add"], "DeviceScanKernel": ["cumsum"],
    "softmax_warp_forward": ["_softmax", "_log_softmax"], "softmax_warp_backward": ["_softmax_backward_data", "_log_softmax_backward_data"],
    "radixSort": ["sort"], "gatherTopK": ["topk"], "silu_kernel": ["silu"], "silu_backward_kernel": ["silu_backward"],
    "embedding_backward": ["embedding_dense_backward"], "nll_loss_forward": ["nll_loss_forward"], "nll_loss_backward": ["nll_loss_backward"],
}


def started(trace):
    """Kernels, products and copies on the device of a timed step, by phase."""
    (lines,) = [process.splitlines() for process in trace.read_text().split("\nprocess ")
                if "grouped-r1/spec.json" in process.split("\n", 1)[0] and "\ntime" in process]
    marks = [number for number, line in enumerate(lines) if line == "time"]
    each = len(marks) // STEPS
    bounds = marks[TIMED * each:(TIMED + 1) * each]
    words = ("launch ", "call ", "copy device to device")
    phases = [[line for line in lines[start:end] if line.startswith(words)] for start, end in zip(bounds, bounds[1:])]
    return dict(zip(("data", "forward", "backward", "bookkeeping", "optimizer"), phases))


def kernels_are_those_of_the_operators(phases, operators):
    lines = phases["forward"] + phases["backward"]
    for kernel, names in KERNELS.items():
        count, calls = sum(kernel in line for line in lines), sum(operators[f"aten::{name}"]["calls"] for name in names)
        assert count == calls > 0, f"{kernel} was started {count} times, and the plan calls {' and '.join(names)} {calls} times"


def main(folder):
    counts = folder / "counts.jsonl"
    ended = on_stand_in(counts, OPTRUSH, "run", HERE / "experts.lua", "--out", folder, trace=folder / "trace")
    # The gate's reference has the plain experts, whose numbers of rows the host reads: here they are no numbers.
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
    counted, planned = ({name: of["launches"] for name, of in costs["costs"]["phases"].items()} for costs in (result, plan))
    assert counted.pop("data") == planned.pop("data") + OF_THE_BATCH, (counted, planned)
    assert counted == planned, (counted, planned)
    phases = started(folder / "trace")
    assert {name: len(phases[name]) for name in planned} == planned, ({name: len(lines) for name, lines in phases.items()}, planned)
    kernels_are_those_of_the_operators(phases, plan["costs"]["operators"])


with tempfile.TemporaryDirectory() as scratch:
    main(Path(scratch))
