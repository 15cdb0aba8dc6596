"""Shipped experiments run in tiny form, their reports have the answers, and their forms for a GPU are sound."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD, SOURCE = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]), pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests/support"))
from byte_tokenizer import save_byte_tokenizer  # noqa: E402


def run(name, rungs, settings, folder, *arguments):
    """{rung: row} of the report, and its text."""
    command = [BUILD / "bin/optrush", "run", SOURCE / f"experiments/{name}.lua", "--out", folder, "--rounds", "1",
               "--device", "cpu", "--threads", "1"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    for rung in rungs:
        command += ["--only", rung]
    for argument in arguments:
        command += ["--arg", argument]
    # The tokenizer of a checkpoint needs Python. Charts take a second to draw, and no test reads them.
    environment = os.environ if arguments else {**os.environ, "OPTRUSH_PYTHON": "/bin/false"}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{name}\n{done.stdout}\n{done.stderr}"
    report = pathlib.Path(folder) / name / "local"
    rows = {row["rung"]: row for row in json.loads((report / "results.json").read_text())["rows"]}
    for rung in rungs:
        assert rows[rung]["status"] == "ok", rows[rung]
    return rows, (report / "report.md").read_text()


def planned_for(name, *options):
    """The variants that a script makes with these options; only the base is planned."""
    script = SOURCE / f"experiments/{name}.lua"
    command = [BUILD / "bin/optrush", "run", script, "--dry-run", "--json", "--only", "base", *options]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


def variants_for(name, *options):
    done = planned_for(name, *options)
    assert done.returncode == 0, f"{name} {options}\n{done.stderr}"
    return {variant["name"]: variant for variant in json.loads(done.stdout)[0]["variants"]}


def plugins_of(variant):
    return {use["name"]: use["options"] for use in variant["spec"]["plugins"]}


# The forms of scripts for a GPU, without a GPU.
for memory, length in (("141", 4096), ("80", 4096), ("48", 2048)):
    for preset in ("short", "full"):
        ladder = variants_for("single_gpu", "--as-gpu", memory, "--preset", preset)
        assert ladder["base"]["spec"]["train"]["seq_len"] == length
        assert ladder["base"]["spec"]["model"]["n_layers"] == 16 and ladder["base"]["spec"]["device"] == "cuda"
        if memory == "80":  # a sequence of 4,096 without fused attention takes 78 GiB
            assert plugins_of(ladder["bf16 autocast, attention flash"])["flash_attention"]["kernel"] == "flash"
        else:
            assert ladder["bf16 autocast"]["expect"]["speedup"] == 3.5
        batch = ladder["compile"]["spec"]["train"]["micro_batch"]
        assert ladder["PyTorch"]["spec"]["train"]["micro_batch"] == batch, "the same problem for both"
        assert not {"mixed_precision", "fused_adamw"} & plugins_of(ladder["bf16 weights"]).keys()
        # A larger micro-batch fills the memory that bf16 weights and the fused loss save.
        larger = {"141": 16, "80": 8, "48": 8}[memory]
        assert larger > batch and ladder["float8"]["previous"] == ladder[f"compile, micro-batch {larger}"]["index"]
        assert ladder["float8"]["spec"]["train"]["micro_batch"] == larger
        recomputing = ladder["full checkpointing"]
        top = ladder[f"bf16 weights, micro-batch {larger}"]
        assert recomputing["previous"] == top["index"], "it branches off before the compiler"
        assert "compile" not in plugins_of(recomputing) and "float8" not in plugins_of(recomputing)
        assert ladder[f"sequence {8 * length}, full checkpointing"]["spec"]["train"]["seq_len"] == 8 * length
    assert plugins_of(ladder["float8, row-wise"])["float8"]["recipe"] == "rowwise"
small = planned_for("single_gpu", "--as-gpu", "24")
assert small.returncode == 1 and "Llama 3.2 1B takes 41 GiB" in small.stderr, small.stderr
assert "no preset 'ful'" in planned_for("single_gpu", "--preset", "ful").stderr
for name in ("attention", "kernels", "hardware", "swiglu_checkpoint"):
    forms = variants_for(name, "--as-gpu", "141").values()
    assert any(form["spec"]["train"]["dtype"] == "bf16" for form in forms), name
ladder = variants_for("versus_pytorch", "--as-gpu", "141")
assert "cuda_graphs" in plugins_of(ladder["CUDA graphs"]) and "Liger" in ladder
assert plugins_of(ladder["base"]).keys() == {"flash_attention", "mixed_precision"}, "as in the peers"
peer = ladder["torch.compile by blocks"]
assert "bf16_weights" in plugins_of(ladder["bf16 weights"])
assert "bf16_weights" in peer["external"]["command"], "on both sides"
unfair = [name for name, rung in ladder.items() if rung["external"] and not rung["external"]["headline"]]
assert unfair == ["torch.compile, transformers as it is"], unfair

for memory, larger in (("141", True), ("80", False)):
    ladder = variants_for("flagship", "--as-gpu", memory)
    assert list(ladder) == ["base", "attention cudnn", "fused kernels", "fused loss", "bf16 weights",
                            "micro-batch 8"], list(ladder)
    assert all(rung["spec"]["train"]["seq_len"] == 4096 for rung in ladder.values())
    assert ladder["bf16 weights"]["spec"]["train"]["micro_batch"] == 4
    assert ladder["micro-batch 8"]["spec"]["train"]["micro_batch"] == 8
    ladder = variants_for("flagship", "--as-gpu", memory, "--preset", "full")
    assert ladder["PyTorch"]["spec"]["train"]["micro_batch"] == 4
    assert "cuda_graphs" in plugins_of(ladder["compile, CUDA graphs"])
    assert ladder["float8"]["previous"] == ladder["compile"]["index"] and ("micro-batch 16" in ladder) == larger
    by_kernels = ladder["float8 by kernels"]
    assert by_kernels["previous"] == ladder["micro-batch 8"]["index"]
    assert plugins_of(by_kernels)["fused_kernels"]["largest_values"]
small = planned_for("flagship", "--as-gpu", "40")
assert small.returncode == 1 and "need a card of 74 GiB" in small.stderr, small.stderr

ladder = variants_for("memory", "--as-gpu", "80")
assert ladder["base"]["spec"]["model"]["n_layers"] == 16
assert ladder["update in the backward"]["expect"]["memory"] == 0.93
assert ladder["LoRA"]["previous"] == ladder["checkpointing"]["index"]
assert "optimizer_in_backward" not in plugins_of(ladder["LoRA"])
assert "nf4" in plugins_of(ladder["NF4 weights, micro-batch 8"])
assert variants_for("memory", "--arg", "model=nano", "--device", "cpu")["base"]["spec"]["model"]["n_layers"] == 2

parts = variants_for("ranking", "--as-gpu", "80", "--preset", "compile")
assert {"full", "without compile", "one micro-batch alone"} < parts.keys()
assert parts["base"]["spec"]["model"]["n_layers"] == 16
batches = [part["spec"]["train"]["micro_batch"] * part["spec"]["train"]["accumulation"] for part in parts.values()]
assert len(set(batches)) == 1, batches

for preset, compiled in (("eager", False), ("compile", True)):
    parts = variants_for("olmo_ranking", "--as-gpu", "80", "--preset", preset)
    assert ("without compile" in parts) == compiled and "FSDP in bf16, limited gathers alone" not in parts
    olmo = parts["base"]["spec"]["model"]
    assert (olmo["vocab_size"], olmo["norm"], olmo["dim"]) == (50257, "layernorm_without_parameters", 2048), olmo
    assert parts["FlashAttention alone"]["expect"]["speedup"] == 1.12
    assert not parts["without FlashAttention"].get("expect")
    assert {"low_precision_norm", "vocab_padding", "flash_attention"} < plugins_of(parts["full"]).keys()
ladder = variants_for("optimizers", "--as-gpu", "80")
for name in ("Lion", "Adafactor", "Schedule-Free AdamW"):
    assert ladder[name]["previous"] == ladder["fused AdamW"]["index"] and "fused_adamw" not in plugins_of(ladder[name])
for ranks, cuts in (("2", "tensor parallel 2"), ("4", "experts over 2 pairs of ranks, tensor parallel 2")):
    ladder = variants_for("moe", "--device", "cpu", "--arg", f"ranks={ranks}", "--arg", "peers=true")
    trained = [rung["spec"]["train"] for rung in ladder.values() if rung["spec"]["train"]["world_size"] > 1]
    groups = {name: {use["name"]: use["options"].get("size") for use in rung["spec"]["plugins"]}
              for name, rung in ladder.items()}
    assert {"fused_kernels", "tensor_parallel"} < groups[cuts].keys(), groups[cuts]
    assert "grouped_experts" not in groups[cuts], groups[cuts]
    cut = groups[cuts]["tensor_parallel"]
    batch = ladder["base"]["spec"]["train"]["micro_batch"]
    assert ladder[cuts]["spec"]["train"]["micro_batch"] * int(ranks) // cut == batch
    peer = ladder[f"transformers, experts over {ranks} ranks"]
    ours = ladder[f"experts over {ranks} ranks, the rest in shards"]
    assert peer["previous"] == ours["index"], "the same problem for both"
    assert ladder[f"tensor parallel {ranks}"]["previous"] == ladder["fused kernels"]["index"]
    assert len(trained) == (5 if ranks == "2" else 6), trained
grid = variants_for("time_to_loss", "--device", "cpu", "--arg", "more=true")
assert len(grid) == 1 + 8 * 5 and len({variant["spec"]["train"]["lr"] for variant in grid.values()}) == 8
assert "lion" in plugins_of(grid["lr 0.000125 + Lion"]) and "fused_adamw" not in plugins_of(grid["lr 0.000125 + Lion"])
assert len(variants_for("time_to_loss", "--device", "cpu")) == 1 + 5 * 2
parts = variants_for("olmo_ranking", "--device", "cpu", "--arg", "ranks=2")
assert parts["base"]["spec"]["train"]["world_size"] == 2 and plugins_of(parts["base"])["fsdp"]["limit"] == 64
assert plugins_of(parts["FSDP in bf16, limited gathers alone"])["fsdp"]["reduce_type"] == "bf16"
assert plugins_of(parts["without FSDP in bf16, limited gathers"])["fsdp"]["limit"] == 64

parts = variants_for("best_stack")
assert {"fused AdamW", "batch x4", "SwiGLU recompute", "caching allocator"} < parts.keys() and "compile" not in parts
parts = variants_for("best_stack", "--as-gpu", "141", "--preset", "full")
assert "compile" in parts and "caching allocator" not in parts and parts["base"]["spec"]["model"]["n_layers"] == 16


def make_checkpoint(folder, tie, positions=96):
    """A Hugging Face folder of a model that no experiment has by default."""
    folder.mkdir()
    spec = next(iter(variants_for("quickstart", "--device", "cpu").values()))["spec"]
    spec["model"].update({"dim": 64, "n_layers": 4, "n_heads": 4, "n_kv_heads": 2, "ffn_dim": 96,
                          "tie_embeddings": tie})
    spec["train"].update({"seq_len": positions, "steps": 1, "warmup": 0})
    spec["data"] = {"kind": "random"}
    (folder / "spec.json").write_text(json.dumps(spec))
    export = [BUILD / "bin/optrush-worker", "export", "--spec", folder / "spec.json", "--out", folder]
    subprocess.run(export, check=True)
    save_byte_tokenizer(folder)
    return folder


OF_SIZES = {"attention": "/model/dim", "kernels": "/model/dim", "linear_attention": "/model/dim",
            "swiglu_checkpoint": "/model/ffn_dim", "hardware": None}
WITHOUT_A_MODEL = dict.fromkeys(("interconnect", "program", "published_memory"), "this experiment trains no model")
UNTIED = {"versus_fsdp2", "versus_parallel"}  # the peers need a head that is not tied to the embeddings
ON_RANDOM_TOKENS = {"data_loading", *OF_SIZES, *WITHOUT_A_MODEL}


def make_corpus(folder):
    """A part of the default texts of experiments, because all texts take minutes to tokenize."""
    texts = pathlib.Path(variants_for("quickstart", "--device", "cpu")["base"]["spec"]["data"]["path"])
    folder.mkdir()
    for text in sorted((texts / "ATen/core").glob("*.h")):
        (folder / text.name).write_bytes(text.read_bytes()[:4000])  # their last lines are the same
    return folder


def every_experiment_takes_a_checkpoint(work, corpus):
    """--arg checkpoint gives each shipped experiment its model and sizes, or a clear refusal.

    Relative paths begin at the working folder.
    """
    tied, untied = make_checkpoint(work / "tied", True), make_checkpoint(work / "untied", False)
    names = sorted(script.stem for script in (SOURCE / "experiments").glob("*.lua"))
    assert len(names) > 20
    for name in names:
        texts = () if name in ON_RANDOM_TOKENS else ("--set", f"data.path={corpus}")
        done = planned_for(name, "--arg", f"checkpoint={os.path.relpath(tied)}", "--device", "cpu", *texts)
        if name in WITHOUT_A_MODEL or name in UNTIED:
            said = WITHOUT_A_MODEL.get(name, "tied embeddings")
            assert done.returncode == 1 and said in done.stderr, (name, done.stderr)
            if name in WITHOUT_A_MODEL:
                continue
            done = planned_for(name, "--arg", f"checkpoint={untied}", "--device", "cpu", *texts)
        assert done.returncode == 0, f"{name}\n{done.stderr}"
        experiment = json.loads(done.stdout)[0]
        variants = experiment["variants"]
        assert not experiment["failures"], f"{name}: {experiment['failures']}"
        if name in OF_SIZES:
            widths = {variant["spec"]["model"].get("dim") for variant in variants}
            assert 64 in widths, (name, widths)
            continue
        folder = untied if name in UNTIED else tied
        for variant in variants:
            assert variant["spec"]["model"] == {"checkpoint": str(folder)}, (name, variant["spec"]["model"])
            assert variant["spec"]["train"]["seq_len"] <= 96, (name, variant["name"])
    options = ("--arg", f"checkpoint={tied}", "--device", "cpu", "--set", f"data.path={corpus}")
    parts = variants_for("olmo_ranking", *options)
    assert "vocab_padding" not in plugins_of(parts["full"]), "256 tokens need no padding, and the full stack has to run"
    variants = variants_for("quickstart", *options)
    base = variants["base"]["spec"]["train"]
    assert (base["micro_batch"], base["seq_len"]) == (4, 96), "a small model has the batch of the experiment"
    return tied


def search(name, settings, folder):
    """The stacks that a search of a few seconds considered. Its first stage does not depend on the time."""
    command = [BUILD / "bin/optrush", "run", SOURCE / f"experiments/{name}.lua", "--out", folder, "--at-most", "5s",
               "--device", "cpu", "--threads", "1"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{name}\n{done.stdout}\n{done.stderr}"
    return json.loads((pathlib.Path(folder) / name / "local/tried.json").read_text())


with tempfile.TemporaryDirectory() as folder:
    tiny = {"model.dim": 64, "model.ffn_dim": 128, "model.n_layers": 2, "model.vocab_size": 256, "train.seq_len": 32,
            "train.steps": 2, "train.warmup": 1}
    rungs = ["FlashAttention", "micro-batch 8", "fused loss", "full checkpointing"]
    rows, text = run("single_gpu", rungs, tiny, folder)
    assert rows["FlashAttention"]["published"] == {
        "speedup": 1.75, "memory": 0.7, "on": "A100-80GB, sequence 2048", "comparable": False,
        "source": "figures given to this project, without a public source"}
    assert "<b>Beside published figures</b>" in text and "(1.75x)" in text

    rows, _ = run("flagship", ["fused loss", "bf16 weights", "micro-batch 8"], tiny, folder)
    assert rows["fused loss"]["gate"]["compared"] and rows["bf16 weights"]["gate"]["compared"], rows

    rows, text = run("ranking", ["full", "without one micro-batch", "one micro-batch alone"], tiny, folder)
    names = ("without one micro-batch", "full", "one micro-batch alone")
    without, full, alone = (rows[name]["memory"]["peak_allocated"] for name in names)
    worth = next(line for line in text.splitlines() if line.startswith("| one micro-batch | "))
    assert f"| {full / without - 1:+.1%} |".replace("%", " %") in worth and alone > full, (worth, without, full, alone)

    corpus = make_corpus(pathlib.Path(folder) / "corpus")
    checkpoint = every_experiment_takes_a_checkpoint(pathlib.Path(folder), corpus)
    rows, text = run("quickstart", ["FlashAttention", "micro-batch 8"], {"train.steps": 2, "data.path": corpus}, folder,
                     f"checkpoint={checkpoint}")
    assert rows["micro-batch 8"]["gate"]["compared"], rows["micro-batch 8"]["gate"]
    unescaped = text.replace("\\_", "_")  # names of temporary folders may have two underscores
    assert f"checkpoint = {checkpoint}" in unescaped, text

    rungs = ["fused loss", "8-bit AdamW", "update in the backward", "NF4 weights"]
    rows, text = run("memory", rungs, {**tiny, "model.vocab_size": 4096}, folder)
    peaks = [rows[rung]["memory"]["peak_allocated"] for rung in ["base", *rungs[1:]]]
    assert peaks == sorted(peaks, reverse=True), peaks
    assert "torchtune's README" in text

    tried = search("best_stack", tiny, folder)
    assert [row["stack"] for row in tried["stages"][0]["stacks"]] == [
        "fused AdamW", "FlashAttention", "fused kernels", "fused loss", "batch x2", "batch x4", "checkpointing",
        "SwiGLU recompute", "caching allocator"]
    assert all(row["speed"] for row in tried["stages"][0]["stacks"]), tried

    rows, text = run("attention", ["S 256 + plain", "S 256 + fused", "S 512 + plain", "S 512 + fused"], {}, folder)
    peak = {rung: row["memory"]["peak_allocated"] for rung, row in rows.items()}
    # For the doubled length, scores take four times the memory, and everything else twice.
    assert 3 < peak["S 512 + plain"] / peak["S 256 + plain"] < 4
    assert 1.5 < peak["S 512 + fused"] / peak["S 256 + fused"] < 2.2
    assert "| sequence | attention | forward | backward | peak memory |" in text and "<b>Roofline</b>" in text

    operators = ["norm", "add_norm", "position", "swiglu"]
    rows, text = run("kernels", [f"{op} + {form}" for op in operators for form in ("unfused", "fused")],
                     {"train.micro_batch": 1, "train.seq_len": 16}, folder)
    for op in operators:
        assert rows[f"{op} + fused"]["gate"]["compared"], rows[f"{op} + fused"]["gate"]
    assert "forward, of the bandwidth" in text

    rows, text = run("hardware", ["255 + fp32", "257 + bf16", "norm", "linear"],
                     {"train.steps": 2, "train.warmup": 1}, folder)
    lines = [line for line in text.splitlines() if line.startswith(("| norm | forward", "| linear | forward"))]
    assert "| memory |" in lines[0] and len(lines) == 2, lines
    assert "triad" in text

    small = {**tiny, "train.seq_len": 64}
    beside = ["Lion", "Adafactor", "Schedule-Free AdamW"]
    rows, _ = run("optimizers", ["fused AdamW", "in the backward", "8-bit AdamW", *beside], small, folder)
    parts = {rung: row["memory"]["parts"] for rung, row in rows.items()}
    assert parts["in the backward"]["gradients"] < 0.5 * parts["fused AdamW"]["gradients"], parts
    assert parts["8-bit AdamW"]["optimizer_state"] < 0.3 * parts["fused AdamW"]["optimizer_state"], parts
    of_adamw = [parts[rung]["optimizer_state"] / parts["fused AdamW"]["optimizer_state"] for rung in beside]
    assert of_adamw[0] == 0.5 and of_adamw[1] < 0.1 and of_adamw[2] == 1, of_adamw

    rungs = ["full", "without FlashAttention", "padded vocabulary alone", "low-precision norm alone"]
    rows, text = run("olmo_ranking", rungs, {**small, "model.vocab_size": 257}, folder)
    assert rows["padded vocabulary alone"]["gate"]["compared"] and "the published ranking of OLMo 1.2B" in text

    rows, text = run("data_loading", ["text + when needed", "text + one step ahead"], small, folder)
    ahead = rows["text + one step ahead"]
    assert ahead["gate"]["compared"] and ahead["gate"]["worst"] == 0, "the same batches"
    assert "| data | made | step | data | peak memory |" in text

    rows, text = run("time_to_loss", ["lr 0.002 + AdamW", "lr 0.002 + Muon"], {**small, "train.steps": 40}, folder)
    assert "| learning rate | optimizer | step | validation loss | steps to loss | time to loss |" in text
    assert rows["lr 0.002 + Muon"]["time_to_loss"]["by"] == "validation loss", rows

    rows, _ = run("qlora", ["LoRA", "NF4 weights", "checkpointing"], small, folder)
    parameters = {rung: rows[rung]["memory"]["parts"]["parameters"] for rung in ("LoRA", "NF4 weights")}
    assert parameters["NF4 weights"] < 0.6 * parameters["LoRA"], parameters

    rows, text = run("sft", ["packing", "LoRA", "NF4 weights"],
                     {**small, "train.seq_len": 512, "train.micro_batch": 1, "data.path": corpus}, folder)
    assert " of their positions filled" in text

    _, text = run("dpo", ["mixed precision", "FlashAttention", "fused loss", "NF4 weights"],
                     {**small, "train.seq_len": 128, "train.micro_batch": 2, "data.path": corpus}, folder)
    assert "dpo: accuracy" in text and "dpo: reward margin" in text
