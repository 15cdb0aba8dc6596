"""A ladder of single-GPU plugins on the stand-in, for each architecture: every rung trains to its end without a fault.

Its host waits and its memory are as planned, and no report looks like one of a measurement."""
import json
import subprocess
import tempfile
from pathlib import Path

from on_stand_in import HERE, OPTRUSH, assert_no_faults, on_stand_in

BLOCK = 2 << 20  # bytes; the caching allocator's block for small tensors


def parts_of_the_set_up(metrics, result):
    """Each part is present and not negative. Parts that do not contain one another sum to at most the whole."""
    event = next(line for line in map(json.loads, metrics.read_text().splitlines()) if line.get("event") == "setup")
    seconds = event["seconds"]
    outer = ["device opened", "plugins described", "plugins loaded", "first memory on the GPU",
             "first kernel on the GPU", "initial values", "parameters to the device", "parameters stored",
             "waits for the parameters", "plugins, parameters there", "optimizer", "plugins, run ready"]
    inner = ["memory on the GPU", "pinned memory", "copies to pinned memory", "starts of copies to the GPU",
             "waits for copies to the GPU"]
    assert seconds.keys() == {*outer, *inner, "data"}, seconds
    total = result["setup_seconds"]
    assert min(seconds.values()) >= 0 and sum(seconds[part] for part in outer) <= total, (seconds, total)
    assert sum(seconds[part] for part in inner) <= seconds["parameters to the device"], seconds
    assert event["page_faults"] > 0 and event["user_seconds"] > 0, event


def run(architecture, folder):
    counts = folder / "counts.jsonl"
    ended = on_stand_in(counts, OPTRUSH, "run", HERE / "ladder.lua", "--out", folder, arch=architecture)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = folder / "fake_cuda/local"
    assert (report / "report.md").read_text().startswith("The device is a stand-in for a GPU"), "a report was written"
    assert not (report / "results.csv").exists() and not (report / "report.html").exists()

    assert_no_faults(counts)
    compared = subprocess.run([OPTRUSH, "compare", report, report], capture_output=True, text=True, check=False)
    assert compared.returncode != 0 and "is a stand-in for a GPU" in compared.stderr, compared.stderr

    plans = json.loads((report / "plans.json").read_text())
    results = sorted(report.glob("runs/*-r1/result.json"))
    assert len(results) == len(plans) == 12, results
    peaks = {}
    for file, plan in zip(results, plans):
        result = json.loads(file.read_text())
        assert result["status"] == "ok", result
        parts_of_the_set_up(file.with_name("metrics.jsonl"), result)
        peak = peaks[file.parent.name.split("-", 1)[1]] = result["memory"]["peak_allocated"]
        if "graphs" in file.parent.name:  # the allocator does not count the memory of a recorded step; checked below
            continue
        forecast = plan["memory"]["peak_bytes"]
        assert abs(forecast - peak) <= BLOCK, f"{file}: {forecast} bytes were predicted, and the allocator had {peak}"
        waits = result["costs"]["total"]["host_waits"]
        assert waits == 0, f"{file}: a step waits for the device {waits} times"
    assert abs(peaks["cuda-graphs-r1"] - peaks["clipping-r1"]) <= BLOCK, peaks


for arch in ["sm_80", "sm_90"]:
    with tempfile.TemporaryDirectory() as scratch:
        run(arch, Path(scratch))
