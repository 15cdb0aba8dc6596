"""The host, the hand-written loop and the Python twin of bench/ have the same losses at every step."""
import json
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file

BUILD, SOURCE = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]), pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
WORKER = BUILD / "bin/optrush-worker"
PEERS = SOURCE / "experiments/peers"
SPEC = {"model": {"dim": 48, "n_layers": 2, "n_heads": 6, "n_kv_heads": 2, "ffn_dim": 100, "vocab_size": 131,
                  "tie_embeddings": False},
        "data": {"kind": "random"},
        "train": {"micro_batch": 3, "accumulation": 2, "seq_len": 33, "steps": 4, "warmup": 2, "lr": 1e-2, "seed": 7},
        "device": "cpu", "threads": 1}


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def twin(start, out):
    """Runs the Python twin in this process, which imports transformers only once."""
    before = sys.argv, list(sys.path)
    sys.argv, sys.path = ["transformers_twin.py", "--start", str(start), "--out", str(out)], [str(PEERS), *sys.path]
    try:
        runpy.run_path(str(PEERS / "transformers_twin.py"), run_name="__main__")
    finally:
        sys.argv, sys.path = before


def losses(path):
    result = json.loads(path.read_text())
    assert result["status"] == "ok", result
    return [step["loss"] for step in result["steps"]]


def host(folder, name, spec):
    file = folder / f"{name}.json"
    file.write_text(json.dumps(spec))
    run(WORKER, "run", "--spec", file, "--out", folder / name)
    return losses(folder / name / "result.json")


def assert_near(ours, theirs, tolerance, what):
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))
    assert worst <= tolerance, f"{what}: {worst:.2e}\n{ours}\n{theirs}"


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "spec.json").write_text(json.dumps(SPEC))
    start = folder / "start"
    run(WORKER, "export", "--spec", folder / "spec.json", "--out", start)
    tokens = load_file(start / "tokens.safetensors")["tokens"]
    assert tokens.shape == (6, 6, 34) and tokens.dtype == torch.int64
    assert 0 <= tokens.min() and tokens.max() < 131

    ours = host(folder, "from-seed", SPEC)
    assert len(ours) == 6 and ours[-1] != ours[0]
    again = host(folder, "from-checkpoint", {**SPEC, "model": {"checkpoint": str(start)}})
    assert again == ours, f"a run from the exported values is another run\n{again}\n{ours}"

    run(sys.executable, PEERS / "transformers_twin.py", "--start", start, "--out", folder / "twin.json")
    by_itself = losses(folder / "twin.json")
    assert_near(ours, by_itself, 2e-5, "Python twin")
    twin(start, folder / "twin.json")
    assert losses(folder / "twin.json") == by_itself, "the program has the same losses in this process"

    # The loop has no accumulation: it takes the whole batch at once.
    run(BUILD / "bin/hand_written_loop", start, folder / "loop.json")
    assert_near(ours, losses(folder / "loop.json"), 2e-5, "hand-written loop")

    # Learning-rate schedules.
    for decay in ("cosine", "linear"):
        falling = {**SPEC, "train": {**SPEC["train"], "lr_warmup": 2, "lr_decay": decay, "lr_steps": 5, "lr_min": 0.1}}
        (folder / "falling.json").write_text(json.dumps(falling))
        run(WORKER, "export", "--spec", folder / "falling.json", "--out", start)
        twin(start, folder / "falling-twin.json")
        scheduled = host(folder, "scheduled", falling)
        assert_near(scheduled, losses(folder / "falling-twin.json"), 2e-5, f"Python twin, {decay}")
        assert max(abs(a - b) / b for a, b in zip(scheduled, ours)) > 1e-3, "another rate has other losses"

    # torch's Muon iterates in bf16. Ours does so under autocast, and in fp32 otherwise.
    for name, plugins, tolerance in (("muon", ["muon"], 2e-4), ("muon-bf16", ["mixed_precision", "muon"], 2e-3)):
        muon = {**SPEC, "plugins": [{"name": plugin, "options": {}} for plugin in plugins]}
        (folder / f"{name}.json").write_text(json.dumps(muon))
        run(WORKER, "export", "--spec", folder / f"{name}.json", "--out", start)
        twin(start, folder / "twin.json")
        orthogonal = host(folder, name, muon)
        assert_near(orthogonal, losses(folder / "twin.json"), tolerance, f"Python twin, {name}")
        assert max(abs(a - b) / b for a, b in zip(orthogonal, ours)) > 5e-3, "another optimizer has other losses"
