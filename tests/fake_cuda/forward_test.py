"""`forward --device cuda` on the stand-in: logits, loss and all gradients have their shapes, and kernels were launched.

The program says that nothing was computed."""
import json
import struct
import subprocess
import tempfile
from pathlib import Path

from on_stand_in import BUILD, HERE, OPTRUSH, assert_no_faults, counted, on_stand_in

WORKER = BUILD / "bin/optrush-worker"
ROWS, LENGTH, VOCABULARY = 2, 16, 64
PLAIN = []
PLUGINS = ("mixed_precision:dtype=bf16", "flash_attention", "fused_kernels", "fused_linear_cross_entropy")
STACK = [word for plugin in PLUGINS for word in ("--plugin", plugin)]


def model_of(folder):
    """Exports the initial values of the model of compile_modes.lua as a Hugging Face folder."""
    dry_run = [OPTRUSH, "run", HERE / "compile_modes.lua", "--dry-run", "--json", "--device", "cpu"]
    planned = subprocess.run(dry_run, capture_output=True, text=True, check=True)
    (folder / "spec.json").write_text(json.dumps(json.loads(planned.stdout)[0]["variants"][0]["spec"]))
    export = [WORKER, "export", "--spec", folder / "spec.json", "--out", folder / "model"]
    subprocess.run(export, capture_output=True, check=True)
    return folder / "model"


def write_tokens(file):
    count = ROWS * LENGTH
    head = json.dumps({"input_ids": {"dtype": "I64", "shape": [ROWS, LENGTH], "data_offsets": [0, 8 * count]}}).encode()
    tokens = struct.pack(f"<{count}q", *(7 * i % VOCABULARY for i in range(count)))
    file.write_bytes(struct.pack("<Q", len(head)) + head + tokens)


def shapes_of(file):
    data = file.read_bytes()
    head = json.loads(data[8:8 + struct.unpack_from("<Q", data)[0]])
    return {name: entry["shape"] for name, entry in head.items() if name != "__metadata__"}


def forward(folder, model, arch, plugins):
    counts, out = folder / f"{arch}.jsonl", folder / "out.safetensors"
    done = on_stand_in(counts, WORKER, "forward", "--model", model, "--tokens", folder / "tokens.safetensors",
                       "--out", out, "--gradients", "--device", "cuda", *plugins, arch=arch)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("The device is a stand-in for a GPU: it computes nothing"), done.stdout
    assert_no_faults(counts)
    assert sum(line["launches"] for line in counted(counts)) > 0, counted(counts)
    shapes = shapes_of(out)
    assert shapes.pop("logits") == [ROWS, LENGTH, VOCABULARY] and shapes.pop("loss") == [], shapes
    parameters = {f"grad.{name}": shape for name, shape in shapes_of(model / "model.safetensors").items()}
    assert shapes == parameters, (shapes, parameters)


with tempfile.TemporaryDirectory() as scratch:
    write_tokens(Path(scratch) / "tokens.safetensors")
    exported = model_of(Path(scratch))
    forward(Path(scratch), exported, "sm_80", PLAIN)
    forward(Path(scratch), exported, "sm_90", STACK)
