"""peers_test.py one_rank|ranks: PyTorch programs as rungs of experiments in tiny form.

They have the same losses, and are measured in the same rounds."""
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


FAIR = ("PyTorch, eager", "torch.compile", "torch.compile by blocks")
SHIPPED = "torch.compile, transformers as it is"


def one_rank(folder):
    report, results, rows = run(folder, "versus_pytorch", ["our stack", "compile", *FAIR, SHIPPED],
                                options=["--trace", "--arg", "precision=fp32"], **TINY)
    for rung in ("our stack", *FAIR):
        assert_trace_is_summed(report, rows[rung])
    curves = {}
    for path in report.glob("runs/*/result.json"):
        spec, result = json.loads((path.parent / "spec.json").read_text()), json.loads(path.read_text())
        if spec["purpose"] == "measure":
            curves[spec["rung"]] = result
    for rung in (*FAIR, SHIPPED):
        assert_agrees(rows[rung])
        assert rows[rung]["mfu"] is not None, "its FLOPs are those of the model"
        note = next(note for note in curves[rung]["notes"] if note.startswith("attention: "))
        assert "flash_attention_for_cpu" in note or "flash" in note, note
        assert ("dense mask" in note) == (rung == SHIPPED), (rung, note)
        losses = [step["loss"] for step in curves[rung]["steps"]]
        reference = [step["loss"] for step in curves["base"]["steps"]]
        assert max(abs(a / b - 1) for a, b in zip(losses, reference)) < 1e-6, (rung, losses, reference)
    assert rows["torch.compile"]["compile_seconds"] > rows[FAIR[0]]["compile_seconds"] == 0
    assert {program["rung"] for program in results["programs"]} >= {*FAIR, SHIPPED}
    text = (report / "report.md").read_text()
    headline = next(line for line in text.splitlines() if line.startswith("**"))
    assert SHIPPED not in headline, headline
    assert "<b>Other programs</b>" in text
    assert "Environment MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1" in text


def turns_of(report, *runs):
    return [json.loads((report / "runs" / run / "result.json").read_text()).get("turns") for run in runs]


def in_turns(folder):
    """A rung without a predicted peak runs alone in the first round, and in turns later, with its measured peak."""
    report, _, rows = run(folder, "versus_pytorch", [FAIR[0]], rounds=2, label="turns",
                          options=["--arg", "precision=fp32"], **TINY)
    assert_agrees(rows[FAIR[0]])
    base = turns_of(report, "00-base-r2")
    first, second = turns_of(report, "03-pytorch-eager-r1", "03-pytorch-eager-r2")
    assert not first and second and [second] == base, (base, first, second)


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
    base, peer = turns_of(report, "00-base-r2", "01-fsdp2-r2")
    assert base and base == peer, (base, peer)


def a_missing_package_is_reported_first(folder):
    """Exit code 2 and the command that installs it, before any measurement."""
    python = pathlib.Path(folder) / "python"
    python.write_text("#!/bin/sh\necho '[\"safetensors>=0.4\"]'\n")
    python.chmod(0o755)
    command = [BUILD / "bin/optrush", "run", SOURCE / "experiments/versus_pytorch.lua",
               "--out", pathlib.Path(folder) / "none", "--device", "cpu",
               "--only", "PyTorch, eager", "--arg", "precision=fp32"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env={**os.environ, "OPTRUSH_PYTHON": str(python)})
    assert done.returncode == 2 and "lacks safetensors>=0.4" in done.stderr, done.stderr
    assert "optrush setup peers" in done.stderr and "needed by: PyTorch, eager" in done.stderr, done.stderr
    assert not (pathlib.Path(folder) / "none").exists(), "no run has begun"


PARTS = {"one_rank": (a_missing_package_is_reported_first, one_rank, in_turns),
         "ranks": (two_ranks, experts_over_two_ranks, from_a_checkpoint)}
with tempfile.TemporaryDirectory() as folder:
    for part in PARTS[sys.argv[1]]:
        part(folder)
