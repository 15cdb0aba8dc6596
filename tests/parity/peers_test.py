"""PyTorch stands beside the host in experiments: the same losses, in the same rounds, in tiny form."""
import json
import os
import pathlib
import subprocess
import tempfile

BUILD, SOURCE = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]), pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
TINY = {"model.dim": 64, "model.ffn_dim": 128, "model.n_layers": 2, "train.micro_batch": 2, "train.seq_len": 32,
        "train.steps": 3, "train.warmup": 3}


def run(folder, name, rungs, **settings):
    """The report of an experiment in one round of these rungs."""
    command = [BUILD / "bin/optrush", "run", SOURCE / f"experiments/{name}.lua", "--out", folder, "--rounds", "1",
               "--threads", "1", "--device", "cpu"]
    for key, value in {**TINY, **settings}.items():
        command += ["--set", f"{key}={value}"]
    for rung in rungs:
        command += ["--only", rung]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    report = pathlib.Path(folder) / name / "local"
    results = json.loads((report / "results.json").read_text())
    return report, results, {row["rung"]: row for row in results["rows"]}


def assert_agrees(row):
    assert row["status"] == "ok" and row["group"] == "external", row
    assert row["gate"]["compared"] and row["gate"]["worst"] < 1e-4, row["gate"]
    assert {"forward", "backward", "optimizer"} <= row["phases"].keys(), row["phases"]


def one_rank(folder):
    report, results, rows = run(folder, "versus_pytorch",
                                ["SDPA", "PyTorch fp32", "torch.compile default", "PyTorch fp32, jemalloc"])
    for rung in ("PyTorch fp32", "torch.compile default"):
        assert_agrees(rows[rung])
        assert rows[rung]["mfu"] is not None, "its FLOPs are those of the model"
    assert rows["torch.compile default"]["compile_seconds"] > rows["PyTorch fp32"]["compile_seconds"] == 0
    assert {program["rung"] for program in results["programs"]} >= {"PyTorch fp32", "torch.compile default"}
    jemalloc = rows["PyTorch fp32, jemalloc"]
    assert jemalloc["status"] == "ok" or "libjemalloc.so.2" in jemalloc["reason"], jemalloc
    text = (report / "report.md").read_text()
    assert "## Other programs" in text
    assert "Environment MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1: PyTorch fp32, jemalloc" in text


def two_ranks(folder):
    accumulated = {"train.accumulation": 2, "train.lr_warmup": 2, "train.lr_decay": "linear", "train.lr_steps": 5}
    _, _, rows = run(folder, "versus_fsdp2", ["FSDP2", "FSDP2, kept for the backward"], **accumulated)
    assert_agrees(rows["FSDP2"])
    _, _, rows = run(folder, "ddp", ["2 ranks, the same batch", "PyTorch DDP, the same batch"], **accumulated)
    assert_agrees(rows["PyTorch DDP, the same batch"])


with tempfile.TemporaryDirectory() as folder:
    one_rank(folder)
    two_ranks(folder)
