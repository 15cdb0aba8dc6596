"""The forms of `lora` beside PEFT: rsLoRA, DoRA, patterns, modules_to_save, LoRA+, and adapters that PEFT wrote.

Logits, loss and every gradient equal those of PEFT, a training with LoRA+ has PEFT's losses, several ranks train like
one process, and a wrong option is refused at its line."""
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile

import peft
import torch
import transformers
from peft.optimizers import create_loraplus_optimizer
from safetensors.torch import load_file, save_file

import reference

BUILD = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"])
LENGTH = 19
SIZES = {"vocab_size": 61, "hidden_size": 32, "intermediate_size": 44, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "pad_token_id": None}
LLAMA = transformers.LlamaConfig(**SIZES)
ATTENTION = ["q_proj", "v_proj"]
# {name: (model, fields of PEFT's config, names of PEFT and here that differ)}
FORMS = {
    "rsLoRA, patterns, saved norms": (LLAMA, {
        "r": 4, "lora_alpha": 8, "use_rslora": True, "target_modules": [*ATTENTION, "down_proj"],
        "rank_pattern": {r"layers\.0\..*q_proj": 2}, "alpha_pattern": {"v_proj": 3.5},
        "modules_to_save": ["norm", "lm_head"]}, {}),
    "DoRA": (LLAMA, {
        "r": 3, "lora_alpha": 8, "use_dora": True, "target_modules": [*ATTENTION, "o_proj", "down_proj"],
        "modules_to_save": ["embed_tokens"]}, {}),
    "DoRA of a part, biases": (transformers.Qwen2Config(**SIZES), {
        "r": 4, "lora_alpha": 2, "use_dora": True, "use_rslora": True, "target_modules": ["layers.1.self_attn.k_proj",
                                                                                       "lm_head"]}, {}),
    "DoRA of experts": (transformers.MixtralConfig(**SIZES, num_local_experts=3, num_experts_per_tok=2), {
        "r": 2, "lora_alpha": 8, "use_dora": True, "target_modules": ["q_proj", "w1"]}, {"w1": "gate_proj"}),
    "DoRA of linear attention": (transformers.Qwen3NextConfig(
        **SIZES, head_dim=8, num_experts=0, layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2,
        linear_num_value_heads=4, linear_key_head_dim=6, linear_value_head_dim=10), {
            "r": 2, "lora_alpha": 8, "use_dora": True,
            "target_modules": ["in_proj_qkvz", "in_proj_ba", "out_proj", "q_proj"]}, {}),
    "norms with an offset": (transformers.GemmaConfig(**SIZES, head_dim=8, tie_word_embeddings=False), {
        "r": 2, "lora_alpha": 8, "target_modules": ATTENTION, "modules_to_save": ["input_layernorm"]}, {}),
}
NAMES = {"r": "rank", "lora_alpha": "alpha"}


def adapted(config, seed, folder, fields):
    """PEFT's model with random values of all that is trained. Writes the model and its adapter to folders."""
    model = reference.make(config, seed)
    reference.save(model, folder / "base")
    made = reference.add_lora(model, task_type="CAUSAL_LM", **fields)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter), alpha=0.05)
    made.save_pretrained(folder / "adapter")
    return made


def forward(folder, tokens, dtype, fields, renamed, *more):
    options = {NAMES.get(name, name): value for name, value in fields.items()} | {"adapter": str(folder / "adapter")}
    texts = []
    for name, value in options.items():
        words = [renamed.get(word, word) for word in value] if isinstance(value, list) else []
        texts.append(f"{name}={','.join(words) if words else value if isinstance(value, str) else json.dumps(value)}")
    save_file({"input_ids": tokens}, folder / "in.safetensors")
    command = [BUILD / "bin/optrush-worker", "forward", "--model", folder / "base",
               "--tokens", folder / "in.safetensors", "--out", folder / "out.safetensors",
               "--gradients", "--dtype", dtype, "--device", "cpu"]
    for plugin in (f"lora:{','.join(texts)}", *more):
        command += ["--plugin", plugin]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return load_file(folder / "out.safetensors")


def check_forward(name, seed):
    config, fields, renamed = FORMS[name]
    tokens = torch.randint(SIZES["vocab_size"], (2, LENGTH), generator=torch.Generator().manual_seed(seed))
    for dtype, limit, precision, more in (("fp32", 1e-5, contextlib.nullcontext(), ("activation_checkpointing",)),
                                          ("fp64", 1e-12, reference.InDouble(), ())):
        with tempfile.TemporaryDirectory() as folder, precision:
            folder = pathlib.Path(folder)
            theirs = reference.evaluate(adapted(config, seed, folder, fields), tokens)
            ours = forward(folder, tokens, dtype, fields, renamed, *more)
            assert ours.keys() == theirs.keys(), (name, sorted(ours.keys() ^ theirs.keys()))
            apart = {key: ((ours[key] - value).abs().max() / value.abs().max().clamp_min(1e-30)).item()
                     for key, value in theirs.items()}
            worst = max(apart, key=apart.get)
            print(f"{name:32} {dtype} {len(apart):3} tensors, {apart[worst]:.1e} in {worst}", flush=True)
            assert apart[worst] <= limit, (name, dtype, worst, apart[worst])


SCRIPT = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "%(name)s", threads = 1, model = %(model)s,
  train = { micro_batch = 4, seq_len = 16, warmup = 1, steps = 5, lr = 1e-2, weight_decay = 0, dtype = "fp64" },
  plugins = { { "lora", { %(options)s } } },
}
%(rungs)s
exp:run { rounds = 1 }
"""
AT_LINE = ".lua:3, plugin 'lora'"
ALL = ("rank = 3, use_dora = true, use_rslora = true, rank_pattern = { q_proj = 2 }, modules_to_save = { 'norm' }, "
       "loraplus_lr_ratio = 4, target_modules = { 'q_proj', 'v_proj', 'o_proj', 'gate_proj', 'down_proj' }")
STRATEGIES = (("ddp", "", 2), ("fsdp", "stage = 3", 2), ("tensor_parallel", "size = 2", 4),
              ("pipeline_parallel", "size = 2", 4))


def run(work, name, options, model='rush.llama("nano", { tie_embeddings = false })', rungs="", code=0, *arguments):
    values = {"name": name, "options": options, "model": model, "rungs": rungs}
    (work / f"{name}.lua").write_text(SCRIPT % values)
    done = subprocess.run([BUILD / "bin/optrush", "run", f"{name}.lua", "--device", "cpu", *arguments],
                          capture_output=True, text=True, cwd=work)
    assert done.returncode == code, f"{options}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def losses(work, name):
    """{run: losses} of the first round"""
    found = {}
    for folder in sorted((work / f"reports/{name}/local/runs").glob("*-r1")):
        result = json.loads((folder / "result.json").read_text())
        assert result["status"] == "ok", (folder, result["reason"])
        found[folder.name] = [step["loss"] for step in result["steps"]]
    return found


def close(a, b, limit):
    return len(a) == len(b) and all(abs(x - y) <= limit * abs(y) for x, y in zip(a, b))


def check_ranks(work):
    rungs = ", ".join(f'rush.rung("{name}", "{name}", {{ {options} }}, '
                      f'{{ train = {{ world_size = 2, micro_batch = {rows} }} }})'
                      for name, options, rows in STRATEGIES)
    run(work, "ranks", ALL, rungs=f'exp:grid {{ {{ {rungs} }} }}')
    one, *several = losses(work, "ranks").values()
    assert len(several) == len(STRATEGIES) and one[-1] != one[0], (one, several)
    for (name, *_), many in zip(STRATEGIES, several):
        assert close(many, one, 1e-9), (name, one, many)


def check_lora_plus(work):
    """A training with LoRA+ from PEFT's adapter has the losses of PEFT's optimizer."""
    fields = {"r": 3, "lora_alpha": 6, "use_dora": True, "target_modules": ATTENTION, "modules_to_save": ["norm"]}
    with reference.InDouble():
        model = adapted(LLAMA, 5, work, fields)
        run(work, "plus", "rank = 3, alpha = 6, use_dora = true, modules_to_save = { 'norm' }, adapter = 'adapter', "
            "loraplus_lr_ratio = 8", model='rush.checkpoint "base"')
        (folder,) = (work / "reports/plus/local/runs").iterdir()
        ours = losses(work, "plus")[folder.name]
        spec = json.loads((folder / "spec.json").read_text()) | {"plugins": []}
        (work / "spec.json").write_text(json.dumps(spec))
        exported = subprocess.run([BUILD / "bin/optrush", "worker", "export", "--spec", "spec.json",
                                   "--out", "exported"], cwd=work, capture_output=True, text=True)
        assert exported.returncode == 0, exported.stderr
        optimizer = create_loraplus_optimizer(model, torch.optim.AdamW, lr=1e-2, loraplus_lr_ratio=8,
                                              betas=(spec["train"]["beta1"], spec["train"]["beta2"]),
                                              eps=spec["train"]["eps"])
        theirs = []
        for tokens in load_file(work / "exported/tokens.safetensors")["tokens"]:
            logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            theirs.append(loss.item())
    assert close(ours, theirs, 1e-9), (ours, theirs)


def check_refusals(work):
    for options, *said in (
            ("rank_pattern = { q_proj = 0 }", AT_LINE, "'rank_pattern' must be a table { NAME = ... } of integers"),
            ("rank_pattern = { q_prj = 2 }", "rank_pattern has 'q_prj'", "one of: q_proj, v_proj"),
            ("alpha_pattern = { q_proj = 2, ['.*proj'] = 3 }", "alpha_pattern has two patterns for"),
            ("alpha_pattern = { ['(q'] = 2 }", "is not a regular expression"),
            ("modules_to_save = { 'nrm' }", "modules_to_save names 'nrm'", "embed_tokens", "lm_head"),
            ("modules_to_save = { 'self_attn' }", "which is a part of it"),
            ("loraplus_lr_ratio = 0.5", AT_LINE, "between 1"),
            ("use_dorra = true", AT_LINE, "did you mean 'use_dora'"),
            ("adapter = 'nowhere'", AT_LINE, "no folder", "script's folder"),
            ("adapter = 'adapter'", "made with other options", "rank = 3, alpha = 6", "use_dora = true",
             'modules_to_save = { "norm" }')):
        text = run(work, "refused", options, code=1)
        assert all(part in text for part in said), (options, text)
    text = run(work, "tied", "modules_to_save = { 'lm_head' }", 'rush.llama("nano", { tie_embeddings = true })', code=1)
    assert "tie_word_embeddings" in text, text
    config = work / "adapter/adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"lora_bias": True}))
    text = run(work, "biased",
               "rank = 3, alpha = 6, use_dora = true, modules_to_save = { 'norm' }, adapter = 'adapter'",
               'rush.checkpoint "base"', code=1)
    assert "lora_bias = true, which is not supported" in text, text


for seed, form in enumerate(FORMS):
    check_forward(form, seed)
with tempfile.TemporaryDirectory() as folder:
    check_lora_plus(pathlib.Path(folder))
    check_refusals(pathlib.Path(folder))
    check_ranks(pathlib.Path(folder))
