"""A state that `optrush run` saved: other runs go on from it as if there had been no break, on one rank and on two, and
`optrush weights` writes what transformers and peft compute the same losses by."""
import json
import os
import pathlib
import subprocess
import tempfile

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import LlamaForCausalLM

BUILD = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"])
SCRIPT = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "%(name)s",
  model = rush.llama("nano", { tie_embeddings = false }),
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
LORA = '{ "lora", { rank = 4, alpha = 128, target_modules = { "q_proj", "down_proj" } } }, "clip_grad_norm"'


def optrush(work, *arguments, code=0):
    done = subprocess.run([BUILD / "bin/optrush", *map(str, arguments)], capture_output=True, text=True, cwd=work)
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def trained(work, name, steps, plugins, more):
    """{rung: (folder of its run, {step: loss})}"""
    (work / f"{name}.lua").write_text(SCRIPT % {"name": name, "steps": steps, "plugins": plugins, "more": more})
    optrush(work, "run", f"{name}.lua", "--device", "cpu", "--resume")
    found = {}
    for rung, run in (("base", "00-base-r1"), ("shards", "01-shards-r1")):
        folder = work / f"reports/{name}/local/runs" / run
        result = json.loads((folder / "result.json").read_text())
        assert result["status"] == "ok", result["reason"]
        found[rung] = folder, {step["step"]: step["loss"] for step in result["steps"]}
    return found


def same(a, b, tolerance):
    return all(abs(a[step] - b[step]) <= tolerance * abs(b[step]) for step in a)


def loss_of(model, tokens):
    """The mean next-token loss over rows of seq_len + 1 tokens."""
    with torch.no_grad():
        logits = model(tokens[:, :-1]).logits.float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).item()


def check(work, kind, plugins, savers):
    whole = trained(work, f"{kind}-whole", 10, plugins, "")
    begun = trained(work, f"{kind}-begun", 5, plugins, "save = { every = 3 },")
    for folder, _ in begun.values():
        states = json.loads((folder / "state/state.json").read_text())
        assert states["step"] == 7, states
        assert [step.name for step in (folder / "state").glob("step-*")] == ["step-00000007"], "the last one alone is left"
    report = (work / f"reports/{kind}-begun/local/report.md").read_text()
    assert "runs/01-shards-r1/state" in report and "Saved states" in report, report

    for saved_by in savers:
        start = begun[saved_by][0]
        rest = trained(work, f"{kind}-from-{saved_by}", 3, plugins, f'start = "{start}",')
        for rung, (_, losses) in rest.items():
            assert sorted(losses) == list(range(7, 12)), sorted(losses)
            # On the mesh that saved it, to the bit.
            undisturbed = whole[rung][1]
            exact = rung == saved_by
            assert all(losses[step] == undisturbed[step] for step in losses) if exact else same(losses, undisturbed, 1e-4), (
                kind, saved_by, rung, losses, undisturbed)

        exported, out = work / f"{kind}-{saved_by}-start", work / f"{kind}-{saved_by}-weights"
        spec = json.loads((start / "spec.json").read_text())
        spec["train"]["steps"] = 10
        (work / "spec.json").write_text(json.dumps(spec))
        optrush(work, "worker", "export", "--spec", "spec.json", "--out", exported)
        tokens = load_file(exported / "tokens.safetensors")["tokens"][7]
        want = whole["base"][1][7]
        optrush(work, "weights", start, out)
        if plugins:
            model = PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(exported), out).eval()
            assert abs(loss_of(model, tokens) - want) < 1e-4 * want, (kind, saved_by, loss_of(model, tokens), want)
            out = work / f"{kind}-{saved_by}-merged"
            optrush(work, "weights", start / "state", out, "--merge")
        model = LlamaForCausalLM.from_pretrained(out).eval()
        assert abs(loss_of(model, tokens) - want) < 1e-4 * want, (kind, saved_by, loss_of(model, tokens), want)
        before = loss_of(LlamaForCausalLM.from_pretrained(exported).eval(), tokens)
        assert abs(before - want) > 2e-3 * want, ("it has learned", before, want)
    return begun


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    begun = check(work, "full", "", ("base", "shards"))
    check(work, "adapter", LORA, ("shards",))

    start = begun["base"][0]
    assert "is there already" in optrush(work, "weights", start, work / "full-base-weights", code=1)
    optrush(work, "weights", start, work / "half", "--dtype", "bf16")
    config = json.loads((work / "half/config.json").read_text())
    assert config["torch_dtype"] == "bfloat16", config
    assert all(value.dtype == torch.bfloat16 for value in load_file(work / "half/model.safetensors").values())
    # A checkpoint like any other: another experiment starts from its weights alone.
    (work / "further.lua").write_text(
        'local rush = require "optrush"\n'
        'local exp = rush.experiment { name = "further", model = rush.checkpoint "full-base-weights",\n'
        '  train = { micro_batch = 4, seq_len = 16, steps = 2, warmup = 0 } }\n'
        'exp:run { rounds = 1 }\n')
    optrush(work, "run", "further.lua", "--device", "cpu")

    # What is missing is said where it was asked for.
    (work / "nothing.lua").write_text(SCRIPT % {"name": "nothing", "steps": 2, "plugins": "", "more": 'start = "nowhere",'})
    said = optrush(work, "run", "nothing.lua", code=1)
    assert "nothing.lua:3" in said and "no state was saved in" in said, said
    (work / "other.lua").write_text(SCRIPT % {"name": "other", "steps": 2, "plugins": LORA, "more": f'start = "{start}",'})
    said = optrush(work, "run", "other.lua", "--device", "cpu", code=1)
    assert "was it saved by a run with the same plugins?" in said, said
