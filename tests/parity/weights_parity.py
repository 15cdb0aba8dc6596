"""Saved states of `optrush run`: other runs continue from them without a difference, on one rank and on two.

transformers and peft compute the same losses from the weights that `optrush weights` writes."""
import json
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile

import reference
import small_models
import torch
from peft import PeftModel
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import LlamaForCausalLM
from weights_support import (BUILD, LORA, NANO, RUNS, check_written, exported_tokens, loss_of, optrush, script,
                             trained)

# Every form of an adapter, and modules that are trained whole.
FORMS = ('{ "lora", { rank = 4, alpha = 128, target_modules = { "q_proj", "v_proj", "down_proj" }, use_dora = true, '
         'use_rslora = true, rank_pattern = { q_proj = 2 }, alpha_pattern = { v_proj = 64 }, '
         'modules_to_save = { "norm", "lm_head" }, loraplus_lr_ratio = 16 } }, "clip_grad_norm"')


def same(a, b, tolerance):
    return all(abs(a[step] - b[step]) <= tolerance * abs(b[step]) for step in a)


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
    assert "nothing.lua:3" in said and "there is no folder" in said, said
    script(work, "other", 2, LORA, f'start = "{start}",')
    said = optrush(work, "run", "other.lua", "--device", "cpu", code=1)
    assert "with the same plugins" in said, said


with tempfile.TemporaryDirectory() as folder:
    main(pathlib.Path(folder))
