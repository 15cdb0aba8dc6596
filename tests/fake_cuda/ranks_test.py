"""Every way to share a training through the real path on the stand-in: each rank is a process with a device of its own. All train to
their end, what ranks call fits together, no order deadlocks, and each way makes the calls that it is known by."""
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE, BUILD = Path(__file__).parent, Path(os.environ["OPTRUSH_BUILD_DIR"])


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
    command = [sys.executable, HERE / "on_fake_cuda.py", "--devices", "8", "--report", counts, "--", BUILD / "bin/optrush", "run",
               HERE / "ranks.lua", "--out", folder]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "FAKE_CUDA_NCCL": str(log)})
    assert ended.returncode == 0, ended.stdout + ended.stderr
    faults = [line["faults"] for line in map(json.loads, counts.read_text().splitlines()) if line["faults"]]
    assert not faults, faults

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
