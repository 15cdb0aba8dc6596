"""Two ranks on one GPU (OPTRUSH_SHARE_GPU): refused without the variable; with it the real NCCL backend connects them,
the runs have no speeds, each rank is planned with half of the card, and the plan counts NCCL's communicators."""
import json
import tempfile
from collections import Counter
from pathlib import Path

from on_stand_in import HERE, OPTRUSH, assert_no_faults, on_stand_in

MEMORY = 16 << 30
RUNGS = ("ddp", "fsdp", "tensor_parallel", "pipeline_parallel")


def run(folder, **variables):
    """{rung: (its plan's memory, its result)}, and the log of NCCL's calls"""
    counts, log = folder / "counts.jsonl", folder / "nccl"
    ended = on_stand_in(counts, OPTRUSH, "run", HERE / "shared_gpu.lua", "--out", folder, memory=str(MEMORY),
                        environment={"FAKE_CUDA_NCCL": str(log), **variables})
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = folder / "shared/local"
    names = [variant["name"] for variant in json.loads((report / "variants.json").read_text())]
    plans = json.loads((report / "plans.json").read_text())
    results = {}
    for file in report.glob("runs/*-r1/result.json"):
        number = json.loads((file.parent / "spec.json").read_text())["variant"]
        results[names[number]] = (plans[number]["memory"], json.loads(file.read_text()))
    if log.exists():
        assert_no_faults(counts)
    return results, log


def communicators_of_ranks(log):
    """The communicators that each process joined, as a list of counts."""
    joined = Counter()
    for line in log.read_text().splitlines():
        what, _, *rest = line.split()
        if what == "member":
            joined[rest[2]] += 1
    return joined


def shared(folder):
    results, log = run(folder, OPTRUSH_SHARE_GPU="1", OPTRUSH_POISON="1")
    planned = Counter()
    for rung in RUNGS:
        memory, result = results[rung]
        assert result["status"] == "ok", (rung, result["reason"])
        assert "2 ranks share one GPU: losses and memory are measured, speeds are not" in result["notes"], result
        assert result["tokens_per_second"] is None and result["step_seconds"] is None, result
        assert len(result["steps"]) == 4 and not any(step["timed"] or step["seconds"] for step in result["steps"])
        assert all(rank["step_seconds"] is None and rank["busy_seconds"] is None and rank["peak_allocated"] > 0
                   for rank in result["ranks"]), result["ranks"]
        assert memory["available_bytes"] == MEMORY // 2, memory
        planned[memory["communicators"]] += 2
    assert Counter(communicators_of_ranks(log).values()) == planned, (communicators_of_ranks(log), planned)


def refused(folder):
    results, _ = run(folder)
    for rung in RUNGS:
        assert rung not in results or results[rung][1]["status"] == "skipped", results[rung]


with tempfile.TemporaryDirectory() as scratch:
    for case in (shared, refused):
        (Path(scratch) / case.__name__).mkdir()
        case(Path(scratch) / case.__name__)
