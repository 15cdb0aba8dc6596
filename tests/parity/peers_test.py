"""PyTorch programs as rungs of experiments in tiny form: the same losses, measured in the same rounds."""
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD, SOURCE = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]), pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests/support"))
from byte_tokenizer import save_byte_tokenizer  # noqa: E402
from peer_runs import assert_agrees, run  # noqa: E402
TINY = {"model.dim": 64, "model.ffn_dim": 128, "model.n_layers": 2, "train.micro_batch": 2, "train.seq_len": 32,
        "train.steps": 3, "train.warmup": 3}


def assert_trace_is_summed(report, row):
    """The kinds of work add up to the phases of the trace, for ours and for PyTorch's programs."""
    work, (file,) = row["traced"], row["traces"]
    phases = sum(event["dur"] for event in json.loads((report / file).read_text())["traceEvents"]
                 if event.get("cat") == "user_annotation" and
                 event["name"] in ("data", "forward", "backward", "optimizer")) / 1e6
    assert abs(sum(work.values()) - phases) < 1e-3 * phases, (row["rung"], work, phases)
    for kind in ("product", "attention", "elementwise", "optimizer"):
        assert work[kind] > 0, (row["rung"], work)
    assert work["communication"] == 0, (row["rung"], work)


def one_rank(folder):
    report, results, rows = run(folder, "versus_pytorch",
                                ["SDPA", "compile", "PyTorch fp32", "torch.compile default", "PyTorch fp32, jemalloc"],
                                rounds=2, options=["--skip-missing", "--trace", "--arg", "precision=fp32"], **TINY)
    for rung in ("SDPA", "PyTorch fp32", "torch.compile default"):
        assert_trace_is_summed(report, rows[rung])
    for rung in ("PyTorch fp32", "torch.compile default"):
        assert_agrees(rows[rung])
        assert rows[rung]["mfu"] is not None, "its FLOPs are those of the model"
    assert rows["torch.compile default"]["compile_seconds"] > rows["PyTorch fp32"]["compile_seconds"] == 0
    assert {program["rung"] for program in results["programs"]} >= {"PyTorch fp32", "torch.compile default"}
    jemalloc = rows["PyTorch fp32, jemalloc"]
    assert jemalloc["status"] == "ok" or "libjemalloc.so.2" in jemalloc["reason"], jemalloc
    text = (report / "report.md").read_text()
    # The first round runs a rung without a predicted peak alone. Later rounds interleave it, with its measured peak.
    groups = {}
    for path in report.glob("runs/*/result.json"):
        spec = json.loads((path.parent / "spec.json").read_text())
        if spec["purpose"] == "measure":
            groups[spec["rung"], spec["round"]] = json.loads(path.read_text()).get("turns")
    for rung in ("PyTorch fp32", "torch.compile default", "compile"):
        first, second = groups[rung, 0], groups[rung, 1]
        assert not first and second and second == groups["base", 1], (rung, groups)
    assert "## Other programs" in text
    assert "Environment MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1: 'PyTorch fp32, jemalloc'" in text


def two_ranks(folder):
    accumulated = {"train.accumulation": 2, "train.lr_warmup": 2, "train.lr_decay": "linear", "train.lr_steps": 5}
    _, _, rows = run(folder, "versus_fsdp2", ["FSDP2", "FSDP2, kept for the backward"], **TINY, **accumulated)
    assert_agrees(rows["FSDP2"])
    _, _, rows = run(folder, "ddp", ["2 ranks, the same batch", "PyTorch DDP, the same batch"], **TINY, **accumulated)
    assert_agrees(rows["PyTorch DDP, the same batch"])


def experts_over_two_ranks(folder):
    """An older transformers has no expert parallelism and is skipped by name; expert_peer_test.py runs a newer one."""
    peer = "transformers, experts over 2 ranks"
    _, _, rows = run(folder, "moe", ["experts over 2 ranks, the rest in shards", peer],
                     options=["--arg", "ranks=2", "--arg", "peers=true"], **{"train.seq_len": 32, "train.steps": 3})
    assert rows["experts over 2 ranks, the rest in shards"]["status"] == "ok", rows
    here = importlib.metadata.version("transformers")
    assert rows[peer]["status"] == "skipped", rows[peer]
    assert f"version 5.22 or newer, but {here}" in rows[peer]["reason"], rows[peer]


def from_a_checkpoint(folder):
    """Both sides start from the weights of a checkpoint. The ranks of a peer are interleaved too."""
    checkpoint = pathlib.Path(folder) / "checkpoint"
    start = json.loads((pathlib.Path(folder) / "versus_fsdp2/local/runs/00-base-r1/spec.json").read_text())
    start["plugins"], start["train"]["world_size"] = [], 1
    (pathlib.Path(folder) / "start.json").write_text(json.dumps(start))
    export = [BUILD / "bin/optrush-worker", "export", "--spec", pathlib.Path(folder) / "start.json"]
    subprocess.run([*export, "--out", checkpoint], check=True)
    save_byte_tokenizer(checkpoint)
    corpus = pathlib.Path(folder) / "corpus"  # a part, because all texts take minutes to tokenize
    corpus.mkdir()
    for text in sorted((pathlib.Path(start["data"]["path"]) / "ATen/core").glob("*.h")):
        (corpus / text.name).write_bytes(text.read_bytes())
    argument = ["--arg", f"checkpoint={checkpoint}", "--arg", "precision=fp32"]
    report, _, rows = run(folder, "versus_fsdp2", ["FSDP2"], rounds=2, label="checkpoint", options=argument,
                          **{"train.steps": 3, "train.warmup": 2, "data.path": corpus})
    assert_agrees(rows["FSDP2"])
    spec = json.loads((report / "runs/01-fsdp2-r1/spec.json").read_text())
    assert spec["model"] == {"checkpoint": str(checkpoint)}, spec["model"]
    groups = [json.loads((report / f"runs/{run}/result.json").read_text()).get("turns")
              for run in ("00-base-r2", "01-fsdp2-r2")]
    assert groups[0] and groups[0] == groups[1], groups


def a_missing_package_is_reported_first(folder):
    """Exit code 2 and the command that installs it, before any measurement."""
    python = pathlib.Path(folder) / "python"
    python.write_text("#!/bin/sh\necho '[\"safetensors>=0.4\"]'\n")
    python.chmod(0o755)
    command = [BUILD / "bin/optrush", "run", SOURCE / "experiments/versus_pytorch.lua",
               "--out", pathlib.Path(folder) / "none", "--device", "cpu",
               "--only", "PyTorch fp32", "--arg", "precision=fp32"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env={**os.environ, "OPTRUSH_PYTHON": str(python)})
    assert done.returncode == 2 and "lacks safetensors>=0.4" in done.stderr, done.stderr
    assert "optrush setup peers" in done.stderr and "needed by: PyTorch fp32" in done.stderr, done.stderr
    assert not (pathlib.Path(folder) / "none").exists(), "no run has begun"


with tempfile.TemporaryDirectory() as folder:
    a_missing_package_is_reported_first(folder)
    one_rank(folder)
    two_ranks(folder)
    experts_over_two_ranks(folder)
    from_a_checkpoint(folder)
