"""Saved states of `optrush run`: other runs continue from them without a difference, on one rank and on two.

transformers and peft compute the same losses from the weights that `optrush weights` writes."""
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

import reference
import small_models
import torch
from peft import PeftModel
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaForCausalLM

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
OF_INPUTS = ('{ "lora", { rank = 4, alpha = 128, target_modules = { "q_proj", "k_proj", "per_layer_input_gate", '
             '"per_layer_projection", "per_layer_model_projection" } } }, "clip_grad_norm"')
# Every form of an adapter, and modules that are trained whole.
FORMS = ('{ "lora", { rank = 4, alpha = 128, target_modules = { "q_proj", "v_proj", "down_proj" }, use_dora = true, '
         'use_rslora = true, rank_pattern = { q_proj = 2 }, alpha_pattern = { v_proj = 64 }, '
         'modules_to_save = { "norm", "lm_head" }, loraplus_lr_ratio = 16 } }, "clip_grad_norm"')


def optrush(work, *arguments, code=0):
    done = subprocess.run([BUILD / "bin/optrush", *map(str, arguments)], capture_output=True, text=True, cwd=work)
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def script(work, name, steps, plugins, more, model=NANO):
    values = {"name": name, "steps": steps, "plugins": plugins, "more": more, "model": model}
    (work / f"{name}.lua").write_text(SCRIPT % values)


CLASSES = (
    ("OlmoForCausalLM", 'norm = "layernorm_without_parameters"', "", ()),
    ("Olmo2ForCausalLM", 'norm_placement = "after", qk_norm = "whole"', "", ()),
    ("Qwen2ForCausalLM", 'attention_bias = "qkv", window = 5, full_attention_layers = { 0 }', LORA, ("--merge",)),
    ("Qwen3ForCausalLM", 'qk_norm = "per_head", head_dim = 24', "", ()),
    ("SmolLM3ForCausalLM", "layers_without_rope = { 1 }", "", ()),
    ("GemmaForCausalLM", 'activation = "gelu_tanh", embedding_scale = 8', LORA, ("--merge",)),
    ("Gemma2ForCausalLM", 'activation = "gelu_tanh", embedding_scale = 8, norm_placement = "both", '
     "attention_scale = 0.3, attention_soft_cap = 0.3, logits_soft_cap = 2, window = 5, "
     "full_attention_layers = { 1 }", LORA, ("--merge",)),
    ("Gemma3ForCausalLM", 'activation = "gelu_tanh", embedding_scale = 8, norm_placement = "both", '
     'qk_norm = "per_head", attention_scale = 0.3, window = 5, full_attention_layers = { 1 }, '
     "window_rope_theta = 500, logits_soft_cap = 2", "", ()),
    ("GraniteForCausalLM", "embedding_scale = 12, residual_scale = 0.3, logits_divisor = 3, attention_scale = 0.2",
     "", ()),
    ("GraniteMoeHybridForCausalLM", 'embedding_scale = 12, residual_scale = 0.3, attention_scale = 0.2, '
     'position = "none", mamba = { heads = 8, head_dim = 16, state = 12 }, full_attention_layers = { 1 }, '
     "n_experts = 4, expert_ffn_dim = 40, shared_expert_ffn_dim = 48, shared_expert_gate = false",
     LORA, ("--merge",)),
    ("MixtralForCausalLM", "n_experts = 3", LORA, ("--merge",)),
    ("Qwen2MoeForCausalLM",
     'attention_bias = "qkv", n_experts = 4, expert_ffn_dim = 40, shared_expert_ffn_dim = 48',
     LORA, ("--merge",)),
    ("Qwen3MoeForCausalLM", 'qk_norm = "per_head", n_experts = 4, expert_ffn_dim = 40, dense_layers = { 0 }',
     "", ()),
    ("Qwen3NextForCausalLM", 'qk_norm = "per_head", attention_gate = true, rotary_fraction = 0.5, delta_net = { '
     "key_heads = 2, value_heads = 4, key_dim = 8, value_dim = 12, joined = true }, full_attention_layers = { 1 }, "
     "n_experts = 4, expert_ffn_dim = 40, shared_expert_ffn_dim = 48", "", ()),
    ("OlmoeForCausalLM", 'qk_norm = "whole", n_experts = 4, normalize_router = false', "", ()),
    ("Phi3ForCausalLM", "rotary_fraction = 0.5", LORA, ("--merge",)),
    ("Glm4MoeForCausalLM", "rotary_fraction = 0.5, n_experts = 4, expert_ffn_dim = 40, "
     "shared_expert_ffn_dim = 80, shared_expert_gate = false, dense_layers = { 0 }, "
     'router = { scores = "sigmoid", bias = "choice", groups = 2, scale = 1.5 }', "", ()),
    ("DeepseekV3ForCausalLM", "n_kv_heads = 4, head_dim = 24, "
     "latent = { kv_rank = 20, q_rank = 12, rope_dim = 8, value_dim = 12 }, n_experts = 4, expert_ffn_dim = 40, "
     "shared_expert_ffn_dim = 40, shared_expert_gate = false, "
     'router = { scores = "sigmoid", bias = "choice" }', "", ()),
    ("GptOssForCausalLM", 'n_experts = 4, activation = "clamped_silu", attention_bias = "all", '
     'attention_sinks = true, expert_bias = true, router = { bias = "logits" }, window = 5, '
     "full_attention_layers = { 1 }", "", ()),
)
NEMOTRON = 'tie_embeddings = false, activation = "relu2", position = "none", '
# Classes of the newer version of transformers, with which `--newer` runs.
NEWER_CLASSES = (
    ("Gemma4ForCausalLM", 'activation = "gelu_tanh", embedding_scale = 8, norm_placement = "both", '
     'qk_norm = "per_head", value_norm = true, layer_scale = true, attention_scale = 1, logits_soft_cap = 2, '
     'window = 5, full_attention_layers = { 1 }, window_rope_theta = 500, '
     'full_attention = { head_dim = 32, kv_heads = 1, keys_as_values = true }, '
     'rope_scaling = { type = "proportional", fraction = 0.25 }', LORA, ("--merge",)),
    ("Gemma4ForCausalLM", 'activation = "gelu_tanh", embedding_scale = 8, norm_placement = "both", '
     'qk_norm = "per_head", value_norm = true, layer_scale = true, attention_scale = 1, window = 5, '
     "full_attention_layers = { 1 }, window_rope_theta = 500, n_experts = 4, expert_ffn_dim = 40, "
     "experts_beside_mlp = true", "", ()),
    ("NemotronHForCausalLM", NEMOTRON + "mamba = { heads = 8, groups = 2, head_dim = 12, "
     "state = 10, norm_by_group = true, min_step = 0.001 }, full_attention_layers = { 1 }, layers_without_mlp = { 1 }",
     LORA.replace('"q_proj"', '"in_proj"'), ("--merge",)),
    ("NemotronHForCausalLM", NEMOTRON + "mamba = { heads = 8, head_dim = 12, state = 10 }, "
     "full_attention_layers = { 1 }, layers_without_mlp = { 0 }, n_experts = 4, expert_ffn_dim = 40, "
     'shared_expert_ffn_dim = 48, shared_expert_gate = false, router = { scores = "sigmoid", bias = "choice", '
     "scale = 2.5 }", "", ()),
    ("Gemma4ForCausalLM", 'n_layers = 4, activation = "gelu_tanh", embedding_scale = 8, norm_placement = "both", '
     'qk_norm = "per_head", value_norm = true, layer_scale = true, attention_scale = 1, window = 5, '
     "full_attention_layers = { 1, 3 }, full_attention = { head_dim = 32 }, window_rope_theta = 500, "
     "kv_shared_layers = 2, double_wide_mlp = true, per_layer_input_dim = 12, per_layer_vocab_size = 300",
     OF_INPUTS, ("--merge",)),
    ("Ministral3ForCausalLM", 'rope_scaling = { type = "yarn", factor = 4, original_max_position = 8, '
     "query_beta = 0.3 }", "", ()),
    ("Qwen3_5ForCausalLM", 'qk_norm = "per_head", attention_gate = true, rotary_fraction = 0.5, delta_net = { '
     "key_heads = 2, value_heads = 4, key_dim = 8, value_dim = 12 }, full_attention_layers = { 1 }", LORA,
     ("--merge",)),
)

RUNS = {"base": "00-base-r1", "shards": "01-shards-r1"}


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
        steps = [step.name for step in (folder / "state").glob("step-*")]
        assert steps == ["step-00000007"], "only the last state is kept"
    report = (work / f"reports/{kind}-begun/local/report.md").read_text()
    assert "runs/01-shards-r1/state" in report and "Saved states" in report, report

    for saved_by in savers:
        start = begun[saved_by][0]
        rest = trained(work, f"{kind}-from-{saved_by}", 3, plugins, f'start = "{start}",')
        for rung, (_, losses) in rest.items():
            assert sorted(losses) == list(range(7, 12)), sorted(losses)
            # Losses are equal to the bit on the mesh that saved the state.
            undisturbed = whole[rung][1]
            details = (kind, saved_by, rung, losses, undisturbed)
            if rung == saved_by:
                assert all(losses[step] == undisturbed[step] for step in losses), details
            else:
                assert same(losses, undisturbed, 1e-4), details

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
        assert abs(before - want) > 2e-3 * want, ("training changed the loss", before, want)
    return begun


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


def use_spelling_of_5(folder):
    """Writes config.json as transformers 5 does."""
    config = json.loads((folder / "config.json").read_text())
    del config["rope_scaling"], config["torch_dtype"]
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": config.pop("rope_theta")}
    (folder / "config.json").write_text(json.dumps(config))


def saved_parameters(state):
    """{name: value} of a saved state, in the types that it stores."""
    found = {}
    for part in state.glob("step-*/rank-*.safetensors"):
        with safe_open(part, "pt") as file:
            for tensor, entry in json.loads(file.metadata()["optrush_state"]).items():
                if not entry["key"].startswith("model/"):
                    continue
                values, at = file.get_tensor(tensor), 0
                whole = found.setdefault(entry["key"][6:], torch.empty(entry["shape"], dtype=values.dtype))
                for box in entry["boxes"]:
                    place = whole[tuple(slice(begin, end) for begin, end in box)]
                    place.copy_(values[at:at + place.numel()].view_as(place))
                    at += place.numel()
    return found


def retrain(file, settings):
    """Replaces the learning rate of a script."""
    text = file.read_text()
    assert text.count("lr = 1e-2 }") == 1, text
    file.write_text(text.replace("lr = 1e-2 }", settings + " }"))


def check_stored_bits(work):
    """Written weights have all bits of the state: fp32 vectors beside bf16 matrices, fp32 masters, and shards."""
    for name, dtype, plugins, states in (
            ("narrow", "bf16", '"adamw_8bit"', ("state", "best")),
            ("rounded", "bf16", '"stochastic_rounding"', ("state",)),
            ("masters", "fp32", '"bf16_weights"', ("best",)), ("averaged", "fp32", '"schedule_free"', ("state",))):
        more = "save = { every = 6 }, validate = { every = 2, sequences = 4, keep_best = true },"
        script(work, name, 4, plugins, more)
        retrain(work / f"{name}.lua", f'lr = 1e-4, dtype = "{dtype}"')
        optrush(work, "run", f"{name}.lua", "--device", "cpu")
        for rung, run in RUNS.items():
            folder = work / f"reports/{name}/local/runs" / run
            for state in states:
                out = work / f"{name}-{rung}-{state}"
                optrush(work, "weights", folder / state, out, "--dtype", "fp32")
                stored, made = saved_parameters(folder / state), load_file(out / "model.safetensors")
                assert stored.keys() == made.keys(), stored.keys() ^ made.keys()
                for key, value in stored.items():
                    assert made[key].dtype == torch.float32 and torch.equal(made[key], value.float()), (out, key)
            # Without these bits a norm would not have moved.
            finest = stored["model.norm.weight"]
            assert finest.dtype == torch.float32 and not torch.equal(finest, finest.bfloat16().float()), name


def check_merged_bits(work):
    """A merged matrix is W + B A alpha / rank of the stored numbers, as a sum in the type that is asked for."""
    experts = 'rush.llama("nano", { n_experts = 3, tie_embeddings = true })'
    lora = '{ "lora", { rank = 4, alpha = 8, target_modules = { "q_proj", "down_proj", "lm_head" } } }'
    for dtype, plugins, rounded, asks in (("bf16", "", True, ("fp32", "fp64")), ("fp32", "", False, ("fp32",)),
                                          ("fp32", ', "bf16_weights"', True, ("fp32",))):
        name = f"merged-{dtype}{len(plugins)}"
        script(work, name, 4, lora + plugins, "save = { every = 6 },", experts)
        retrain(work / f"{name}.lua", f'lr = 1e-4, dtype = "{dtype}"')
        optrush(work, "run", f"{name}.lua", "--device", "cpu", "--only", "base")
        run = work / f"reports/{name}/local/runs/00-base-r1"
        spec = json.loads((run / "spec.json").read_text())
        spec["plugins"], spec["train"]["dtype"] = [], "fp32"
        (work / "spec.json").write_text(json.dumps(spec))
        optrush(work, "worker", "export", "--spec", "spec.json", "--out", f"{name}-base")
        base = load_file(work / f"{name}-base/model.safetensors")
        base["lm_head.weight"] = base["model.embed_tokens.weight"]
        for asked, most in ((asked, 1e-3 if asked == "fp32" else 1e-9) for asked in asks):
            for form, options in (("adapter", ()), ("merged", ("--merge",))):
                optrush(work, "weights", run, f"{name}-{form}-{asked}", "--dtype", asked, *options)
            adapter = load_file(work / f"{name}-adapter-{asked}/adapter_model.safetensors")
            merged = load_file(work / f"{name}-merged-{asked}/model.safetensors")
            assert json.loads((work / f"{name}-merged-{asked}/config.json").read_text())["tie_word_embeddings"] is False
            changed = [key for key in adapter if "lora_A" in key]
            assert any("experts" in key for key in changed) and any("lm_head" in key for key in changed), changed
            for key in changed:
                weight = key.removeprefix("base_model.model.").replace("lora_A.", "")
                update = 2 * adapter[key.replace("lora_A", "lora_B")].double() @ adapter[key].double()
                value = base[weight].bfloat16().double() if rounded else base[weight].double()
                apart = ((merged[weight].double() - value) - update).norm() / update.norm()
                assert update.norm() > 0 and apart < most, (name, asked, weight, apart.item())


def check_nothing_half(work, run):
    """An export that fails leaves nothing, and one that was killed leaves nothing that stops the next."""
    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))

    before = sorted(work.iterdir())
    for target in ("full-disk", "full-disk/"):
        done = subprocess.run([BUILD / "bin/optrush", "weights", run, target], cwd=work, preexec_fn=small_files,
                              capture_output=True, text=True)
        assert done.returncode != 0, done
        assert sorted(work.iterdir()) == before, set(work.iterdir()) - set(before)
    (work / "empty").mkdir()
    done = subprocess.run([BUILD / "bin/optrush", "weights", run, "empty"], cwd=work, preexec_fn=small_files,
                          capture_output=True, text=True)
    assert done.returncode != 0 and not list((work / "empty").iterdir()), done
    for target, killed in (("whole", ".whole.optrush-unfinished"), ("empty", "empty/.optrush-unfinished")):
        (work / killed).mkdir()
        (work / killed / "config.json").write_text("half")
        optrush(work, "weights", run, target)
        assert sorted(path.name for path in (work / target).iterdir()) == ["config.json", "model.safetensors"]
        assert not (work / killed).exists()


def check_second_training(work, run):
    """A second training has a sensible schedule, or is refused before it trains."""
    def second(name, more, schedule, plugins="", code=0):
        script(work, name, 6, plugins, more)
        retrain(work / f"{name}.lua", f"lr = 1e-2, {schedule}")
        said = optrush(work, "run", f"{name}.lua", "--device", "cpu", "--only", "base", code=code)
        if code != 0:
            return said
        result = json.loads((work / f"reports/{name}/local/runs/00-base-r1/result.json").read_text())
        return result["steps"], result["notes"]

    schedule = 'lr_warmup = 3, lr_decay = "cosine", lr_steps = 7, lr_min = 0.1'
    whole, alone = f'start = "{run}",', f'start = {{ state = "{run}", weights_only = true }},'
    said = second("late", whole, schedule, code=1)
    assert "late.lua:3" in said and "ends at step 7" in said and "weights_only = true" in said, said
    steps, notes = second("anew", alone, schedule)
    assert [step["step"] for step in steps] == list(range(8)), steps
    assert [round(step["learning_rate"], 9) for step in steps[:3]] == [0.0025, 0.005, 0.0075], steps
    assert any("began with the weights of the state" in note for note in notes), notes
    optrush(work, "weights", run, "anew-weights")
    tokens = exported_tokens(work, work / "reports/anew/local/runs/00-base-r1", 0, start=False)
    want = loss_of(LlamaForCausalLM.from_pretrained(work / "anew-weights").eval(), tokens)
    assert abs(steps[0]["loss"] - want) < 1e-4 * want, (steps[0], want)
    steps, notes = second("later", whole, schedule.replace("lr_steps = 7", "lr_steps = 15"))
    assert steps[0]["step"] == 7 and 0.001 < steps[-1]["learning_rate"] < steps[0]["learning_rate"] < 0.0095, steps
    assert any("the state is from step 7, and the schedule" in note for note in notes), notes
    steps, notes = second("constant", whole, "lr_warmup = 0")
    assert not any("schedule" in note for note in notes), notes
    # Optimizer states do not matter for weights alone.
    steps, _ = second("another-optimizer", alone, "beta2 = 0.99", '"lion"')
    assert abs(steps[0]["loss"] - want) < 1e-4 * want, (steps[0], want)


def check_classes(work, classes):
    """The weights that a run writes compute its loss in the class of transformers that its choices need."""
    for number, (kind, choices, plugins, options) in enumerate(classes):
        name = kind if kind not in [each[0] for each in classes[:number]] else f"{kind}-{number}"
        written, _ = check_written(work, name, plugins, f'rush.llama("nano", {{ {choices} }})', *options)
        assert type(written).__name__ == kind
        if kind in ("MixtralForCausalLM", "Qwen2MoeForCausalLM"):
            run = work / f"reports/{kind}/local/runs/00-base-r1"
            said = optrush(work, "weights", run, work / f"{kind}-adapter")
            assert ("transformers 5 leaves out the adapters" in said) == kind.startswith("Qwen2"), said
        if kind == "NemotronHForCausalLM" and plugins:
            run = work / f"reports/{name}/local/runs/00-base-r1"
            assert "--merge" in optrush(work, "weights", run, work / f"{kind}-adapter", code=1)
        if kind == "Phi3ForCausalLM":
            run = work / f"reports/{kind}/local/runs/00-base-r1"
            said = optrush(work, "weights", run, work / f"{kind}-adapter", code=1)
            assert "as a part of 'self_attn.qkv_proj.weight'" in said and "--merge" in said, said


def main(work):
    begun = check(work, "full", "", ("base", "shards"))
    check(work, "adapter", FORMS, ("shards",))

    start = begun["base"][0]
    check_stored_bits(work)
    check_merged_bits(work)
    check_nothing_half(work, start)
    check_second_training(work, start)
    assert "already exists" in optrush(work, "weights", start, work / "full-base-weights", code=1)
    optrush(work, "weights", start, work / "half", "--dtype", "bf16")
    config = json.loads((work / "half/config.json").read_text())
    assert config["torch_dtype"] == config["dtype"] == "bfloat16", config
    assert all(value.dtype == torch.bfloat16 for value in load_file(work / "half/model.safetensors").values())
    # Another experiment starts from the written checkpoint, with a config.json of any version. A model that is trained
    # in fp32 is loaded in fp32, although the checkpoint is in bf16.
    use_spelling_of_5(work / "half")
    beside = ("spiece.model", "chat_template.json", "additional_chat_templates/rag.jinja", "generation_config.json")
    (work / "half/additional_chat_templates").mkdir()
    for name in beside:
        (work / "half" / name).write_text("{}")
    further = trained(work, "further", 2, "", "save = { every = 2 },", 'rush.checkpoint "half"', ["base"])["base"][0]
    optrush(work, "weights", further, work / "further-weights")
    copied = [(work / "further-weights" / name).read_text() == "{}" for name in beside]
    assert all(copied), "the tokenizer's files are copied with the weights"
    config = json.loads((work / "further-weights/config.json").read_text())
    assert config["torch_dtype"] == config["dtype"] == "float32", config
    assert config["rope_theta"] == 10000 and config["rope_scaling"] is None and "rope_parameters" not in config, config
    stored, before = (load_file(work / name / "model.safetensors") for name in ("further-weights", "half"))
    loaded = LlamaForCausalLM.from_pretrained(work / "further-weights", dtype="auto")
    for name, value in loaded.named_parameters():
        assert value.dtype == torch.float32 and torch.equal(value, stored[name]), name
        assert not torch.equal(value, before[name].float()), ("training changed it", name)

    # The base matrices of an adapter are written with their 4-bit values, as in training.
    _, said = check_written(work, "qlora", LORA + ', "nf4"', NANO, "--merge")
    assert "quantized values" in said, said
    # A tied head with an adapter is written as a matrix of its own.
    head = '{ "lora", { rank = 4, alpha = 128, target_modules = { "q_proj", "lm_head" } } }'
    written, _ = check_written(work, "head", head, 'rush.llama("nano")', "--merge")
    assert written.lm_head.weight is not written.model.embed_tokens.weight
    check_classes(work, CLASSES)

    # The text model of a folder with an image encoder is trained, and written as a model of its own class.
    reference.save(reference.make(small_models.MODELS["Gemma 3 with images"], 5), work / "images")
    for plugins, options in (("", ()), (LORA, ("--merge",))):
        written, _ = check_written(work, "seen", plugins, 'rush.checkpoint "images"', *options)
        assert type(written).__name__ == "Gemma3ForCausalLM", type(written)
        for name in ("seen", "seen-whole"):
            shutil.rmtree(work / "reports" / name)
        shutil.rmtree(work / "seen-weights")

    # An adapter is written for a model without a class in transformers too.
    layernorm = 'rush.llama("nano", { norm = "layernorm" })'
    alone = trained(work, "layernorm", 2, LORA, "save = { every = 2 },", layernorm, ["base"])["base"][0]
    optrush(work, "weights", alone, work / "layernorm-weights")
    assert (work / "layernorm-weights/adapter_model.safetensors").exists()

    # The state of a failed run is written only if it is named.
    shutil.copytree(start, work / "failed")
    result = json.loads((work / "failed/result.json").read_text())
    (work / "failed/result.json").write_text(json.dumps(result | {"status": "failed", "reason": "the loss is nan"}))
    said = optrush(work, "weights", work / "failed", work / "failed-weights", code=1)
    assert "is failed: the loss is nan" in said and "from step 7" in said and "failed/state" in said, said
    assert not (work / "failed-weights").exists()
    optrush(work, "weights", work / "failed/state", work / "failed-weights")

    # A missing state is reported with the place that asked for it.
    script(work, "nothing", 2, "", 'start = "nowhere",')
    said = optrush(work, "run", "nothing.lua", code=1)
    assert "nothing.lua:3" in said and "no state was saved in" in said, said
    script(work, "other", 2, LORA, f'start = "{start}",')
    said = optrush(work, "run", "other.lua", "--device", "cpu", code=1)
    assert "with the same plugins" in said, said


with tempfile.TemporaryDirectory() as folder:
    if "--newer" in sys.argv:
        check_classes(pathlib.Path(folder), NEWER_CLASSES)
    else:
        main(pathlib.Path(folder))
