"""Helpers of the tests of external rungs: run a tiny form of an experiment, and check that a rung agrees."""
import json
import os
import pathlib
import subprocess

BUILD, SOURCE = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]), pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])


def run(folder, name, rungs, rounds=1, label="local", options=(), **settings):
    """Runs these rungs of an experiment and returns its report."""
    command = [BUILD / "bin/optrush", "run", SOURCE / f"experiments/{name}.lua", "--out", folder, "--rounds", rounds,
               "--threads", "1", "--device", "cpu", "--label", label, *options]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    for rung in rungs:
        command += ["--only", rung]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    report = pathlib.Path(folder) / name / label
    results = json.loads((report / "results.json").read_text())
    return report, results, {row["rung"]: row for row in results["rows"]}


def assert_agrees(row):
    assert row["status"] == "ok" and row["group"] == "external", row
    assert row["gate"]["compared"] and row["gate"]["worst"] < 1e-4, row["gate"]
    assert {"forward", "backward", "optimizer"} <= row["phases"].keys(), row["phases"]
