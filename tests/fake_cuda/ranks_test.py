"""Every kind of distributed training on the stand-in: each rank is a process with its own device.

All runs train to their end. The calls of the ranks match, no order deadlocks, and each kind makes its typical calls."""
import json
import tempfile
from collections import Counter
from pathlib import Path

from on_stand_in import BUILD, HERE, OPTRUSH, assert_no_faults, on_stand_in


def calls_of(log):
    """{(kind of an NCCL call, number of ranks): number of calls}"""
    sizes, kinds = {}, Counter()
    for line in log.read_text().splitlines():
        what, name, *rest = line.split()
        if what == "member":
            sizes[name] = int(rest[0])
        elif what == "call":
            kinds[rest[1], sizes[name]] += 1
    return kinds


def sent_parts(log):
    """{communicator that exchanged row counts by an all-to-all: the numbers of elements that its ranks sent}"""
    exchanging, parts = set(), {}
    for line in log.read_text().splitlines():
        what, name, *rest = line.split()
        if what == "call" and rest[1] == "AlltoAll" and rest[3] in ("int64", "uint8"):
            exchanging.add(name)
        elif what == "call" and rest[1] == "Send":
            parts.setdefault(name, []).append(int(rest[2]))
    return {name: parts.get(name, []) for name in exchanging}


def main(folder):
    counts, log = folder / "counts.jsonl", folder / "nccl"
    ended = on_stand_in(counts, OPTRUSH, "run", HERE / "ranks.lua", "--out", folder,
                        "--plugin-path", BUILD / "tests/routed", devices=8, environment={"FAKE_CUDA_NCCL": str(log)})
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert_no_faults(counts)

    report = folder / "ranks/local"
    results = {file.parent.name: json.loads(file.read_text()) for file in report.glob("runs/*-r1/result.json")}
    assert len(results) == len(json.loads((report / "plans.json").read_text())), sorted(results)
    bad = {run: result.get("reason") for run, result in results.items() if result["status"] != "ok"}
    assert not bad, bad

    kinds = calls_of(log)
    calls = [("AllReduce", 2), ("AllReduce", 4), ("AllGather", 2), ("ReduceScatter", 2), ("Send", 2), ("Recv", 2)]
    for expected in calls:
        assert kinds[expected] > 0, f"no {expected[0]} of {expected[1]} ranks: {kinds}"

    # Rows go to experts and back in parts of unequal sizes. The stand-in checks that each part is received as sent.
    exchanges = sent_parts(log)
    assert len(exchanges) == 1 + 1 + 2, exchanges.keys()  # a group, a group of four, and one for each rank of tp
    for name, parts in exchanges.items():
        assert len(set(parts)) > 2, (name, sorted(set(parts)))


with tempfile.TemporaryDirectory() as scratch:
    main(Path(scratch))
