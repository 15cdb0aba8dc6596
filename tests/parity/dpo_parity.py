"""The plugin dpo in `optrush run`: transformers and peft compute the same loss and gradient norm of a step.

The adapter and the pairs are the same, or the whole model is trained. Other plugins and meshes keep the losses."""
import contextlib
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time

import torch
from peft import PeftModel
from transformers import LlamaForCausalLM

BUILD = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"])
BETA, SMOOTHING = 0.5, 0.1
HEAD = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "%(name)s",
  model = rush.llama("nano", { tie_embeddings = false }),
  data = rush.preferences "%(data)s.jsonl",
  threads = 1,
  train = { micro_batch = 8, seq_len = 24, steps = %(steps)d, warmup = 0, lr = 2e-2 },
  plugins = { %(adapter)s{ "dpo", { beta = 0.5, label_smoothing = 0.1 } } },
  %(more)s
}
"""
ADAPTER = '{ "lora", { rank = 4, alpha = 32, target_modules = { "q_proj", "v_proj", "down_proj" } } }, '
LADDER = """
exp:ablation {
  rush.rung("fused loss", "fused_linear_cross_entropy"),
  rush.rung("checkpointing", "activation_checkpointing"),
  rush.rung("SDPA", "flash_attention"),
  rush.rung("accumulation", "gradient_accumulation", { steps = 2 }, { train = { micro_batch = 4 } }),
}
exp:ladder {
  rush.rung("replicas", "ddp", {}, { train = { world_size = 2, micro_batch = 4 } }),
  rush.rung("shards", "fsdp", { stage = 3 }, { replace = "ddp" }),
  rush.rung("tensor", "tensor_parallel", { size = 2 }, { without = "fsdp", train = { micro_batch = 8 } }),
}
"""
# A rung whose weights are gathered once a step; a change of values needs a new gather.
OF_WHOLE = """
exp:ladder {
  rush.rung("shards of optimizer state", "fsdp", { stage = 1 }, { train = { world_size = 2, micro_batch = 4 } }),
}
"""


def write_pairs(work):
    """Writes four pairs to train on, followed by three held-out pairs."""
    random.seed(3)
    names = ("prompt", "chosen", "rejected")
    pairs = [{name: [random.randrange(256) for _ in range(random.randrange(2, 11))] for name in names}
             for _ in range(7)]
    for name, part in (("pairs", pairs[:4]), ("more", pairs)):
        (work / f"{name}.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in part))
    return pairs[:4], pairs[4:]


def run(work, name, steps, more="", parts="", code=0, data="pairs", adapter=ADAPTER):
    head = HEAD % {"name": name, "steps": steps, "more": more, "data": data, "adapter": adapter}
    (work / f"{name}.lua").write_text(head + parts + "exp:run { rounds = 1 }\n")
    command = [BUILD / "bin/optrush", "run", f"{name}.lua", "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=work)
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}{done.stderr}"
    return work / f"reports/{name}/local", done.stdout + done.stderr


def steps_of(folder):
    result = json.loads((folder / "result.json").read_text())
    assert result["status"] == "ok", f"{folder}: {result['reason']}"
    return {step["step"]: step for step in result["steps"]}, result


def log_probability(model, prompt, answer):
    tokens = torch.tensor([prompt + answer])
    log_p = model(tokens).logits[0, :-1].log_softmax(-1)
    return log_p[torch.arange(len(tokens[0]) - 1), tokens[0, 1:]][len(prompt) - 1:].sum()


def dpo_loss(model, pairs, first=None):
    """The mean loss and the margins. `first` is the reference model; by default, the model without its adapter."""
    losses, margins = [], []
    for pair in pairs:
        gain = {}
        for answer in ("chosen", "rejected"):
            with torch.no_grad(), contextlib.nullcontext() if first else model.disable_adapter():
                reference = log_probability(first or model, pair["prompt"], pair[answer])
            gain[answer] = log_probability(model, pair["prompt"], pair[answer]) - reference
        margin = BETA * (gain["chosen"] - gain["rejected"])
        log_sigmoid = torch.nn.functional.logsigmoid
        losses.append(-(1 - SMOOTHING) * log_sigmoid(margin) - SMOOTHING * log_sigmoid(-margin))
        margins.append(margin.item())
    return torch.stack(losses).mean(), margins


def dpo(model, pairs, first=None):
    """Loss, margins and gradient norm of one step on all pairs."""
    loss, margins = dpo_loss(model, pairs, first)
    loss.backward()
    norm = torch.stack([param.grad.norm() for param in model.parameters() if param.grad is not None]).norm()
    return loss.item(), margins, norm.item()


def curves_of(report):
    """Steps and validations of each run of a report."""
    folders = sorted(path.parent for path in report.glob("runs/*/result.json"))
    return [(folder.name, *steps_of(folder)) for folder in folders]


def whole_model(work, pairs, held_out):
    """Without an adapter the reference is the initial model."""
    validate = "validate = { every = 3, sequences = 6 }, "
    report, _ = run(work, "whole", 6, validate, LADDER + OF_WHOLE, data="more", adapter="")
    base, result = steps_of(report / "runs/00-base-r1")
    assert abs(base[0]["loss"] - math.log(2)) < 1e-6 and base[5]["loss"] < 0.6, base
    said = "the reference is the model with its initial weights, kept as a copy of the trained parameters"
    assert any(said in note for note in result["notes"]), result["notes"]
    of_three, _ = run(work, "whole_three", 3, validate + "save = { every = 3 },", data="more", adapter="")
    subprocess.run([BUILD / "bin/optrush", "weights", of_three / "runs/00-base-r1", "trained"], check=True, cwd=work)
    first, model = (LlamaForCausalLM.from_pretrained(work / name).eval() for name in ("start", "trained"))
    loss, _, norm = dpo(model, pairs, first)
    assert abs(loss - base[3]["loss"]) < 1e-5, (loss, base[3])
    assert abs(norm - base[3]["grad_norm"]) < 1e-4 * norm, (norm, base[3])
    with torch.no_grad():
        truth = dpo_loss(model, held_out, first)[0].item()
    others = curves_of(report)
    assert len(others) > 8, others
    # With bf16 copies of weights too: if they were stale, the model would be its own reference.
    in_bf16, _ = run(work, "whole_bf16", 6, adapter='"mixed_precision", ')
    assert steps_of(in_bf16 / "runs/00-base-r1")[0][5]["loss"] < 0.62, in_bf16
    measured = 0
    for name, steps, result in others:
        assert all(abs(step["loss"] - base[number]["loss"]) < 2e-4 for number, step in steps.items()), (name, steps)
        at_three = [point["loss"] for point in result.get("validation", []) if point["step"] == 3]
        assert all(abs(loss - truth) < 1e-5 for loss in at_three), (name, at_three, truth)
        measured += len(at_three)
    assert measured > 7, measured


def tuned(work, name, adapter):
    """The run of a supervised fine-tuning, with a saved state."""
    text = HEAD % {"name": name, "steps": 4, "more": "save = { every = 4 },", "data": "more", "adapter": adapter}
    text = text.replace('rush.preferences "more.jsonl"', 'rush.documents "answers.jsonl"')
    text = text.replace('{ "dpo", { beta = 0.5, label_smoothing = 0.1 } }', "")
    (work / f"{name}.lua").write_text(text + "exp:run { rounds = 1 }\n")
    subprocess.run([BUILD / "bin/optrush", "run", f"{name}.lua", "--device", "cpu"], check=True, cwd=work,
                   capture_output=True)
    return work / f"reports/{name}/local/runs/00-base-r1"


def written(work, run, name):
    subprocess.run([BUILD / "bin/optrush", "weights", run, name], check=True, cwd=work, capture_output=True)
    return work / name


def interrupted(work, name):
    """Ends the run of a script by a signal after its third step, and continues it."""
    command = [BUILD / "bin/optrush", "run", f"{name}.lua", "--device", "cpu"]
    process = subprocess.Popen(command, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics = work / f"reports/{name}/local/runs/00-base-r1/metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.read_text().count('"step"') > 2):
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    process.wait()
    subprocess.run([*command, "--resume"], check=True, cwd=work, capture_output=True)
    steps, result = steps_of(metrics.parent)
    assert any("interrupted and continued" in note for note in result["notes"]), result["notes"]
    return steps


def from_saved_state(work, pairs, held_out):
    """The reference is the model that the run starts from: transformers and peft compute the same loss with it."""
    (work / "answers.jsonl").write_text("".join(
        json.dumps({"tokens": pair["prompt"] + pair["rejected"], "prompt_tokens": len(pair["prompt"])}) + "\n"
        for pair in pairs))
    validate, save = "validate = { every = 3, sequences = 6 }, ", "save = { every = 3 },"
    for kind, adapter, extra in (("adapted", ADAPTER, ""), ("full", "", OF_WHOLE)):
        start = tuned(work, f"{kind}_sft", adapter)
        begin = f'start = "{start}",'
        report, _ = run(work, f"{kind}_dpo", 6, validate + begin, LADDER + extra, data="more", adapter=adapter)
        base, result = steps_of(report / "runs/00-base-r1")
        first_step, fourth = min(base), min(base) + 3
        assert first_step == 4 and abs(base[4]["loss"] - math.log(2)) < 1e-6, base
        assert any(f"the model of the state in '{start}/state'" in note for note in result["notes"]), result["notes"]
        of_three, _ = run(work, f"{kind}_three", 3, validate + save + begin, data="more", adapter=adapter)
        of_three /= "runs/00-base-r1"
        folders = [written(work, folder, f"{kind}_{name}") for name, folder in (("begun", start), ("made", of_three))]
        if adapter:
            first, model = (PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(work / "start"), folder,
                                                      is_trainable=True).eval() for folder in folders)
        else:
            first, model = (LlamaForCausalLM.from_pretrained(folder).eval() for folder in folders)
        loss, _, norm = dpo(model, pairs, first)
        assert abs(loss - base[fourth]["loss"]) < 1e-5, (kind, loss, base[fourth])
        assert abs(norm - base[fourth]["grad_norm"]) < 1e-4 * norm, (kind, norm, base[fourth])
        with torch.no_grad():
            truth = dpo_loss(model, held_out, first)[0].item()
        curves, measured = curves_of(report), 0
        assert len(curves) > 8, curves
        for name, steps, result in curves:
            assert all(abs(step["loss"] - base[number]["loss"]) < 2e-4 for number, step in steps.items()), (name, steps)
            points = [point["loss"] for point in result.get("validation", []) if point["step"] == fourth]
            assert all(abs(loss - truth) < 1e-5 for loss in points), (kind, name, points, truth)
            measured += len(points)
        assert measured > 7, measured

        # Another preference training begins with the model of the first one, also without its optimizer.
        for name, start_of in (("again", f'start = "{of_three}",'),
                               ("anew", f'start = {{ state = "{of_three}", weights_only = true }},')):
            again, _ = run(work, f"{kind}_{name}", 2, start_of, data="more", adapter=adapter)
            steps, _ = steps_of(again / "runs/00-base-r1")
            assert min(steps) == (7 if name == "again" else 0), steps
            assert abs(steps[min(steps)]["loss"] - math.log(2)) < 1e-6, (kind, name, steps)

        # A run that continues after an interruption keeps its reference.
        whole, _ = run(work, f"{kind}_long", 150, begin + "save = { every = 200 },", data="more", adapter=adapter)
        text = (work / f"{kind}_long.lua").read_text().replace(f'"{kind}_long"', f'"{kind}_cut"')
        (work / f"{kind}_cut.lua").write_text(text)
        wanted, found = steps_of(whole / "runs/00-base-r1")[0], interrupted(work, f"{kind}_cut")
        assert {number: step["loss"] for number, step in found.items()} == {
            number: step["loss"] for number, step in wanted.items()}, kind

    # A new adapter on a model that was tuned whole: the base is the model of the state.
    begin = f'start = {{ state = "{work}/reports/full_sft/local/runs/00-base-r1", weights_only = true }},'
    report, _ = run(work, "adapter_on_full", 3, begin + save, data="more")
    steps, _ = steps_of(report / "runs/00-base-r1")
    assert abs(steps[0]["loss"] - math.log(2)) < 1e-6, steps
    told = subprocess.run([BUILD / "bin/optrush", "weights", report / "runs/00-base-r1", "on_full"], check=True,
                          cwd=work, capture_output=True, text=True).stdout
    assert "Its base has the weights of the state" in told, told
    subprocess.run([BUILD / "bin/optrush", "weights", report / "runs/00-base-r1", "on_full_merged", "--merge"],
                   check=True, cwd=work, capture_output=True)
    model = PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(work / "full_begun"), work / "on_full").eval()
    merged = LlamaForCausalLM.from_pretrained(work / "on_full_merged").eval()
    tokens = torch.arange(24)[None]
    with torch.no_grad():
        assert (model(tokens).logits - merged(tokens).logits).abs().max() < 1e-4


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    pairs, held_out = write_pairs(work)
    report, _ = run(work, "dpo", 6, parts=LADDER)
    base, result = steps_of(report / "runs/00-base-r1")
    assert abs(base[0]["loss"] - math.log(2)) < 1e-6, "at the start the model is the reference"
    assert base[5]["loss"] < 0.6, base[5]
    counters = {counter["name"]: counter["value"] for counter in result["counters"]["dpo"]}
    assert 0.5 < counters["accuracy"] <= 1 and counters["reward margin"] > 0, counters

    # The loss that transformers and peft compute with the adapter after three steps, as in the fourth step.
    report_of_three, _ = run(work, "three", 3, "save = { every = 3 },")
    saved = report_of_three / "runs/00-base-r1"
    spec = json.loads((saved / "spec.json").read_text())
    spec["data"], spec["plugins"] = {"kind": "random", "path": "", "extensions": []}, []
    (work / "spec.json").write_text(json.dumps(spec))
    for command in (["worker", "export", "--spec", "spec.json", "--out", "start"], ["weights", saved, "adapter"]):
        subprocess.run([BUILD / "bin/optrush", *command], check=True, cwd=work)
    start = LlamaForCausalLM.from_pretrained(work / "start")
    model = PeftModel.from_pretrained(start, work / "adapter", is_trainable=True).eval()
    loss, _, norm = dpo(model, pairs)
    assert abs(loss - base[3]["loss"]) < 1e-5, (loss, base[3])
    assert abs(norm - base[3]["grad_norm"]) < 1e-4 * norm, (norm, base[3])

    whole_model(work, pairs, held_out)
    from_saved_state(work, pairs, held_out)

    # Held-out pairs: empty rows fill the micro-batch.
    held, _ = run(work, "held", 3, "validate = { every = 3, sequences = 6 },", LADDER, data="more")
    with torch.no_grad():
        truth = dpo_loss(model, held_out)[0].item()
    validated = [path.parent for path in held.glob("runs/*/result.json")]
    assert len(validated) > 8, validated
    measured = 0
    for place in validated:
        steps, result = steps_of(place)
        apart = {number: abs(step["loss"] - base[number]["loss"]) for number, step in steps.items() if number in base}
        assert all(difference < 2e-4 for difference in apart.values()), (place, steps)
        for point in result.get("validation", []):
            assert abs(point["loss"] - truth) < 1e-5, (place, point, truth)
            measured += 1
    assert measured > 7, measured

    # Other plugins and meshes train the same pairs with the same losses.
    others = [path.parent for path in report.glob("runs/*/result.json")]
    assert len(others) > 8, others
    for other in others:
        steps, _ = steps_of(other)
        apart = {number: abs(step["loss"] - base[number]["loss"]) for number, step in steps.items() if number in base}
        assert all(difference < 2e-4 for difference in apart.values()), (other, steps)

    # Unsupported combinations are refused by name.
    for more, parts, what in (
            ("", 'exp:ladder { rush.rung("stages", "pipeline_parallel", { size = 2 },'
                 ' { train = { world_size = 2 } }) }\n', "'dpo' and 'pipeline_parallel' conflict"),
            ("", 'exp:ladder { rush.rung("parts", "context_parallel", { size = 2 },'
                 ' { train = { world_size = 2 } }) }\n', "'context_parallel' conflict"),
            ("", 'exp:ladder { rush.rung("odd", { train = { micro_batch = 3 } }) }\n', "micro_batch is 3"),
            ("", 'exp:ladder { rush.rung("alone", { without = "dpo" }) }\n', "stacked plugin trains on pairs"),
            ("validate = { every = 2, data = rush.random() },", "", "validate.data is of kind 'random'")):
        _, said = run(work, "refused", 2, more, parts, code=1)
        assert what in said, (what, said)
