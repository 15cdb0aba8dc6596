"""A mixture of experts with grouped_experts through the real path on the stand-in: the host waits for the device in no step, so
it reads no number of rows; a step has the planned FLOPs, and launches to 5 %."""
import json
import tempfile
from pathlib import Path

from on_stand_in import HERE, OPTRUSH, assert_no_faults, on_stand_in


def main(folder):
    counts = folder / "counts.jsonl"
    ended = on_stand_in(counts, OPTRUSH, "run", HERE / "experts.lua", "--out", folder)
    # The gate's reference has the plain experts, whose numbers of rows the host reads: here they are no numbers.
    assert "grouped, gate reference: failed" in ended.stdout + ended.stderr, ended.stdout + ended.stderr
    assert_no_faults(counts)
    report = folder / "experts/local"
    plan = json.loads((report / "plans.json").read_text())[1]
    (file,) = report.glob("runs/*grouped-r1/result.json")
    result = json.loads(file.read_text())
    assert result["status"] == "ok", result
    assert not any("one by one" in note for note in result["notes"]), result["notes"]
    total = result["costs"]["total"]
    assert total["host_waits"] == 0, total
    planned = plan["costs"]["total"]
    assert total["matmul_flops"] == planned["matmul_flops"], (total, planned)
    assert abs(total["launches"] / planned["launches"] - 1) < 0.05, (total, planned)


with tempfile.TemporaryDirectory() as scratch:
    main(Path(scratch))
