"""Experiments of a small model, and the weights that `optrush weights` writes of their runs."""
import json
import os
import pathlib
import subprocess

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

BUILD = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"])
SCRIPT = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "%(name)s",
  model = %(model)s,
  threads = 1,
  train = { micro_batch = 4, seq_len = 16, steps = %(steps)d, warmup = 2, lr = 1e-2 },
  plugins = { %(plugins)s },
  %(more)s
}
exp:ladder {
  rush.rung("shards", "fsdp", { stage = 3 }, { train = { world_size = 2, micro_batch = 2 } }),
}
exp:run { rounds = 1 }
"""
NANO = 'rush.llama("nano", { tie_embeddings = false })'
LORA = '{ "lora", { rank = 4, alpha = 128, target_modules = { "q_proj", "down_proj" } } }, "clip_grad_norm"'
RUNS = {"base": "00-base-r1", "shards": "01-shards-r1"}


def optrush(work, *arguments, code=0):
    done = subprocess.run([BUILD / "bin/optrush", *map(str, arguments)], capture_output=True, text=True, cwd=work)
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def script(work, name, steps, plugins, more, model=NANO):
    values = {"name": name, "steps": steps, "plugins": plugins, "more": more, "model": model}
    (work / f"{name}.lua").write_text(SCRIPT % values)


def trained(work, name, steps, plugins, more, model=NANO, rungs=("base", "shards")):
    """{rung: (folder of its run, {step: loss})}"""
    script(work, name, steps, plugins, more, model)
    only = [word for rung in rungs for word in ("--only", rung)] if len(rungs) < len(RUNS) else []
    optrush(work, "run", f"{name}.lua", "--device", "cpu", "--resume", *only)
    found = {}
    for rung, run in ((rung, RUNS[rung]) for rung in rungs):
        folder = work / f"reports/{name}/local/runs" / run
        result = json.loads((folder / "result.json").read_text())
        assert result["status"] == "ok", result["reason"]
        found[rung] = folder, {step["step"]: step["loss"] for step in result["steps"]}
    return found


def loss_of(model, tokens):
    """The mean next-token loss over rows of seq_len + 1 tokens."""
    with torch.no_grad():
        logits = model(tokens[:, :-1]).logits.float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).item()


def exported_tokens(work, run, step, start=True):
    spec = json.loads((run / "spec.json").read_text())
    spec["train"]["steps"] = 10
    spec |= {} if start else {"start": "", "weights_only": False}
    (work / "spec.json").write_text(json.dumps(spec))
    optrush(work, "worker", "export", "--spec", "spec.json", "--out", f"{run.parents[2].name}-start")
    return load_file(work / f"{run.parents[2].name}-start/tokens.safetensors")["tokens"][step]


def check_written(work, name, plugins, model, *options):
    """The written model has the loss of the next training step."""
    want = trained(work, f"{name}-whole", 5, plugins, "", model, ["base"])["base"][1][5]
    run = trained(work, name, 3, plugins, "save = { every = 3 },", model, ["base"])["base"][0]
    said = optrush(work, "weights", run, work / f"{name}-weights", *options)
    written = AutoModelForCausalLM.from_pretrained(work / f"{name}-weights").eval()
    found = loss_of(written, exported_tokens(work, run, 5))
    assert abs(found - want) < 1e-4 * want, (name, found, want)
    return written, said
