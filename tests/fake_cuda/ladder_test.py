"""A ladder of single-GPU plugins through the real path on the stand-in, for each architecture: every rung trains to its end, no
fault, as many host waits in a step as planned, as much memory as predicted, and no report that could be taken for a measurement."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = 2 << 20  # of small tensors, of the caching allocator
HERE, BUILD = Path(__file__).parent, Path(os.environ["OPTRUSH_BUILD_DIR"])


def run(architecture, folder):
    counts = folder / "counts.jsonl"
    command = [sys.executable, HERE / "on_fake_cuda.py", "--arch", architecture, "--report", counts, "--",
               BUILD / "bin/optrush", "run", HERE / "ladder.lua", "--out", folder]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = folder / "fake_cuda/local"
    assert (report / "report.md").read_text().startswith("The device is a stand-in for a GPU"), "a report was written"
    assert not (report / "results.csv").exists() and not (report / "report.html").exists()

    faults = [line["faults"] for line in map(json.loads, counts.read_text().splitlines()) if line["faults"]]
    assert not faults, faults
    compared = subprocess.run([BUILD / "bin/optrush", "compare", report, report], capture_output=True, text=True, check=False)
    assert compared.returncode != 0 and "is a stand-in for a GPU" in compared.stderr, compared.stderr

    plans = json.loads((report / "plans.json").read_text())
    results = sorted(report.glob("runs/*-r1/result.json"))
    assert len(results) == len(plans) == 11, results
    for file, plan in zip(results, plans):
        result = json.loads(file.read_text())
        assert result["status"] == "ok", result
        forecast, peak = plan["memory"]["peak_bytes"], result["memory"]["peak_allocated"]
        assert abs(forecast - peak) <= BLOCK, f"{file}: {forecast} bytes were predicted, and the allocator had {peak}"
        waits = result["costs"]["total"]["host_waits"]
        assert waits == 0, f"{file}: a step waits for the device {waits} times"


for arch in ["sm_80", "sm_90"]:
    with tempfile.TemporaryDirectory() as scratch:
        run(arch, Path(scratch))
