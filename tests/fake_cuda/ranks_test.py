"""Every way to share a training through the real path on the stand-in: each rank is a process with a device of its own. All train to
their end, what ranks call fits together, no order deadlocks, and each way makes the calls that it is known by."""
import json
import tempfile
from collections import Counter
from pathlib import Path

from on_stand_in import HERE, OPTRUSH, assert_no_faults, on_stand_in


def calls_of(log):
    """NCCL's calls: how many of each kind, and between how many ranks."""
    sizes, kinds = {}, Counter()
    for line in log.read_text().splitlines():
        what, name, *rest = line.split()
        if what == "member":
            sizes[name] = int(rest[0])
        elif what == "call":
            kinds[rest[1], sizes[name]] += 1
    return kinds


def main(folder):
    counts, log = folder / "counts.jsonl", folder / "nccl"
    ended = on_stand_in(counts, OPTRUSH, "run", HERE / "ranks.lua", "--out", folder, devices=8,
                        environment={"FAKE_CUDA_NCCL": str(log)})
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert_no_faults(counts)

    report = folder / "ranks/local"
    results = {file.parent.name: json.loads(file.read_text()) for file in report.glob("runs/*-r1/result.json")}
    assert len(results) == len(json.loads((report / "plans.json").read_text())), sorted(results)
    bad = {run: result.get("reason") for run, result in results.items() if result["status"] != "ok"}
    assert not bad, bad

    kinds = calls_of(log)
    for expected in [("AllReduce", 2), ("AllReduce", 4), ("AllGather", 2), ("ReduceScatter", 2), ("Send", 2), ("Recv", 2)]:
        assert kinds[expected] > 0, f"no {expected[0]} of {expected[1]} ranks: {kinds}"


with tempfile.TemporaryDirectory() as scratch:
    main(Path(scratch))
