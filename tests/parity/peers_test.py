"""PyTorch stands beside the host in experiments/versus_pytorch.lua: the same losses, in the same rounds, in tiny form."""
import json
import os
import pathlib
import subprocess
import tempfile

BUILD, SOURCE = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]), pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
TINY = {"model.dim": 64, "model.ffn_dim": 128, "model.n_layers": 2, "train.micro_batch": 2, "train.seq_len": 32,
        "train.steps": 3, "train.warmup": 3}
RUNGS = ["SDPA", "PyTorch fp32", "torch.compile default", "PyTorch fp32, jemalloc"]

with tempfile.TemporaryDirectory() as folder:
    command = [BUILD / "bin/optrush", "run", SOURCE / "experiments/versus_pytorch.lua", "--out", folder, "--rounds", "1",
               "--threads", "1", "--device", "cpu"]
    for key, value in TINY.items():
        command += ["--set", f"{key}={value}"]
    for rung in RUNGS:
        command += ["--only", rung]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    report = pathlib.Path(folder) / "versus_pytorch/local"
    results = json.loads((report / "results.json").read_text())
    rows = {row["rung"]: row for row in results["rows"]}

    for rung in ("PyTorch fp32", "torch.compile default"):
        row = rows[rung]
        assert row["status"] == "ok" and row["group"] == "external", row
        assert row["gate"]["compared"] and row["gate"]["worst"] < 1e-4, row["gate"]
        assert {"forward", "backward", "optimizer"} <= row["phases"].keys(), row["phases"]
        assert row["mfu"] is not None, "its FLOPs are those of the model"
    assert rows["torch.compile default"]["compile_seconds"] > rows["PyTorch fp32"]["compile_seconds"] == 0
    assert {program["rung"] for program in results["programs"]} >= {"PyTorch fp32", "torch.compile default"}
    jemalloc = rows["PyTorch fp32, jemalloc"]
    assert jemalloc["status"] == "ok" or "libjemalloc.so.2" in jemalloc["reason"], jemalloc
    assert "## Other programs" in (report / "report.md").read_text()
