"""A mixture of experts with grouped_experts through the real path on the stand-in: the host waits for the device in no step, so
it reads no number of rows; a step has the planned FLOPs and launches, and its forward and its update start as many kernels."""
import json
import tempfile
from pathlib import Path

from on_stand_in import HERE, OPTRUSH, assert_no_faults, on_stand_in

STEPS, TIMED = 5, 3  # of experts.lua, and the first that is timed
OF_THE_BATCH = 3  # launches of its way to the device, which a plan leaves out


def started(trace):
    """Kernels, products and copies on the device by phase of a timed step: data, forward, backward, norm, optimizer."""
    (lines,) = [process.splitlines() for process in trace.read_text().split("\nprocess ")
                if "grouped-r1/spec.json" in process.split("\n", 1)[0] and "\ntime" in process]
    marks = [number for number, line in enumerate(lines) if line == "time"]
    each = len(marks) // STEPS
    bounds = marks[TIMED * each:(TIMED + 1) * each]
    words = ("launch ", "call ", "copy device to device")
    return [sum(line.startswith(words) for line in lines[start:end]) for start, end in zip(bounds, bounds[1:])]


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
    _, forward, _, _, optimizer = started(folder / "trace")[:5]
    assert (forward, optimizer) == (planned["forward"], planned["optimizer"]), (forward, optimizer, planned)


with tempfile.TemporaryDirectory() as scratch:
    main(Path(scratch))
