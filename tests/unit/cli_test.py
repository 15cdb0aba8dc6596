"""The command line of `optrush`: its messages, its lists and its plans."""
import json
import os
import pathlib
import re
import shutil
import subprocess

from cli_support import OPTRUSH, SCRIPT, expect, optrush, run_cases, work


def usage():
    expect(optrush(), 2, "Usage", "new-plugin")
    expect(optrush("--version"), 0, "optrush 0.")
    expect(optrush("--help"), 0, "run an experiment", "optrush run @quickstart")
    expect(optrush("run", "--help"), 0, "--dry-run", "Exit code")
    expect(optrush("rnu", "tiny.lua"), 2, "optrush: error[unknown_name]: there is no command 'rnu'",
           "did you mean 'run'?")
    expect(optrush("run", "tiny.lua", "--dryrun"), 2, "no option '--dryrun'", "did you mean '--dry-run'?")
    expect(optrush("run", "tiny.lua", "--turns", "on"), 2,
           "the option '--turns' of optrush run is now called '--interleave'")
    expect(optrush("run"), 2, "script is required")
    expect(optrush("run", "tyni.lua"), 2, "there is no script 'tyni.lua'", "did you mean 'tiny.lua'?")
    expect(optrush("run", "quickstart"), 2, "there is no script 'quickstart'", "the shipped experiment '@quickstart'")
    expect(optrush("run", "experiments/sft.lua"), 2, "the shipped experiment '@sft'")
    expect(optrush("run", "tiny.lua", "--device", "gpu", "--dry-run"), 2, "did you mean 'cuda'?")
    expect(optrush("run", "tiny.lua", "--rounds", "0"), 2, "--rounds must be a number above 0, but is '0'")
    expect(optrush("run", "tiny.lua", "--within", "3%"), 2, "--within must be a number, but is '3%'")
    expect(optrush("run", "tiny.lua", "--threads", "all"), 2, "--threads must be a whole number, but is 'all'")
    expect(optrush("run", "tiny.lua", "--json"), 2, "--dry-run")
    expect(optrush("run", "tiny.lua", "--set", "train.stesp=1"), 2, "did you mean 'steps'?")
    expect(optrush("run", "tiny.lua", "--only", "fusde", "--dry-run"), 2, "did you mean 'fused'?")
    expect(optrush("run", "tiny.lua", "--set", "gradient_accumulation.stps=4", "--dry-run"), 2, "did you mean 'steps'?")
    expect(optrush("run", "tiny.lua", "--arg", "size=4", "--dry-run"), 2, "the script has no argument 'size'")
    expect(optrush("run", "tiny.lua", "--arg", "size", "--dry-run"), 2, "--arg takes name=value")
    expect(optrush("run", "tiny.lua", "--label", "a/b"), 2, "not a valid folder name")
    expect(optrush("report", "nowhere"), 1, "the folder does not exist")
    expect(optrush("report", "nowhere", "--to", "foo"), 2,
           "error[usage]: --to must be csv or tensorboard or wandb, but is 'foo'")
    expect(optrush("plugins", "--plugin-path", "nowhere"), 2,
           "error[usage]: --plugin-path: there is no folder 'nowhere'")
    halves = pathlib.Path(work, "halves")
    (halves / "kept").mkdir(parents=True)
    (halves / "read").mkdir()
    (halves / "kept/experiment.json").write_text("{}")
    (halves / "read/report.md").write_text("# Read")
    expect(optrush("report", "halves"), 1, "experiment.json is missing", "labels in this folder: kept")
    for rendered in ("report.md", "results.json"):
        (halves / "read/report.md").rename(halves / "read" / rendered)
        expect(optrush("report", "halves/read"), 1, "experiment.json is missing", "copy the whole folder")
        (halves / "read" / rendered).rename(halves / "read/report.md")
    expect(optrush("run", "tiny.lua", "--set", "steps=1"), 2, "did you mean 'train.steps'?")
    expect(optrush("run", "@quikstart", "--dry-run"), 2, "no shipped experiment 'quikstart'",
           "did you mean 'quickstart'?")
    sdk = pathlib.Path(expect(optrush("sdk"), 0).stdout.strip())
    assert (sdk / "lib/cmake/OptimizationRush/OptimizationRushConfig.cmake").exists(), "a build tree is a prefix too"
    assert pathlib.Path(expect(optrush("sdk", "--torch"), 0).stdout.strip(), "lib/libtorch_cpu.so").exists()


def commands_as_typed():
    """The launcher of a clone says how it was started, and hints begin in that way."""
    os.environ["OPTRUSH_COMMAND"] = "./optrush"
    expect(optrush("--help"), 0, "A first experiment: ./optrush run @quickstart")
    expect(optrush("run", "tiny.lua", "--turns", "on"), 2, "optrush: error[unknown_name]: the option",
           "of ./optrush run is now called", "see ./optrush run --help")
    expect(optrush("doctor", "--jsn"), 2, "optrush: error[unknown_name]: ./optrush doctor has no option")
    expect(optrush("plugins"), 0, "Details of a plugin: ./optrush plugins NAME")
    expect(optrush("experiments"), 0, "./optrush run @NAME runs one", "its script: ./optrush experiments --json")
    del os.environ["OPTRUSH_COMMAND"]


def listings():
    expect(optrush("plugins"), 0, "gradient_accumulation", "effect")
    listed = json.loads(expect(optrush("plugins", "--json"), 0).stdout)
    assert "gradient_accumulation" in [plugin["name"] for plugin in listed["plugins"]]
    expect(optrush("plugins", "gradient_accumulation"), 0, "steps", "an integer")
    expect(optrush("plugins", "gradient_acumulation"), 1, "did you mean 'gradient_accumulation'?")
    shown = expect(optrush("experiments"), 0, "@quickstart", "Which optimizations pay on this machine?").stdout
    assert "@attention" in shown and "error" not in shown, shown
    assert "no bf16" not in shown, "the list does not measure the CPU"
    expect(optrush("stubs"), 0, "---@meta", "gradient_accumulation")
    expect(optrush("doctor", "--help"), 0, "--quick")


def experiments_for_programs():
    """A build tree with other experiments: an unreadable one is listed with the code of its error."""
    tree, scripts = work / "tree", pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"]) / "scripts"
    (tree / "bin").mkdir(parents=True)
    shutil.copy(OPTRUSH, tree / "bin")
    (tree / "source/experiments").mkdir(parents=True)
    (tree / "source/scripts").symlink_to(scripts)
    (tree / "installation.json").write_text(json.dumps({"source": str(tree / "source")}))
    good = re.sub(r"exp:ladder.*?\n}\n", "", SCRIPT, flags=re.DOTALL)
    texts = {"good": good, "lua": "local rush = = 1", "plugins": SCRIPT, "values": good.replace("nano", "nona")}
    for name, text in texts.items():
        (tree / f"source/experiments/{name}.lua").write_text(text)
    done = subprocess.run([tree / "bin/optrush", "experiments", "--json"], capture_output=True, text=True, check=True)
    listed = {entry.pop("name"): entry for entry in json.loads(done.stdout)}
    good = {"file": str(tree / "source/experiments/good.lua"), "problem": "",
            "questions": ["Does the command line work?"]}
    assert listed["good"] == good, listed
    codes = {name: entry["code"] for name, entry in listed.items() if name != "good"}
    assert codes == {"lua": "script_error", "plugins": "unknown_name", "values": "invalid_value"}, listed
    assert "lua.lua:1" in listed["lua"]["problem"] and "gradient_accumulation" in listed["plugins"]["problem"], listed


def plan_mesh():
    expect(optrush("plan-mesh", "--model", "llama-3.1-8b", "--devices", "8"), 0, "dp 8", "Assumptions",
           "not a measurement")
    expect(optrush("plan-mesh", "--model", "llama-3.1-70b", "--devices", "8"), 0, "the smallest needs")
    own = ("--flops", "4T", "--memory", "16GB", "--link", "2GB", "--per-node", "4")
    planned = optrush("plan-mesh", "--model", "tiny", "n_layers=8", "--devices", "4", *own, "--markdown")
    text = expect(planned, 0, "| dp 4 |")
    assert "--flops 4T, as given" in text.stdout
    best_two = optrush("plan-mesh", "--model", "tiny", "--devices", "4", "--top", "2", "--json")
    planned = json.loads(expect(best_two, 0).stdout)
    assert len(planned["mixes"]) == 2 and planned["mixes"][0]["seconds"]["step"] > 0
    expect(optrush("plan-mesh", "--projection", "--global-batch", "64"), 0, "Projection, not a measurement",
           "torchtitan", "Megatron")
    expect(optrush("plan-mesh"), 2, "--model and --devices")
    expect(optrush("plan-mesh", "--model", "llama-3.1-8", "--devices", "8"), 2, "did you mean 'llama-3.1-8b'?")
    expect(optrush("plan-mesh", "--model", "tiny", "n_layer=8", "--devices", "8"), 2, "did you mean 'n_layers'?")
    expect(optrush("plan-mesh", "--model", "tiny", "--devices", "8", "--hardware", "h20"), 2,
           "--hardware: unknown hardware 'h20'", "did you mean 'h200'?")
    on = lambda name: optrush("plan-mesh", "--model", "tiny", "--devices", "8", "--hardware", name)
    assert expect(on("H100-80"), 0).stdout == expect(on("h100"), 0).stdout
    expect(on("l40s"), 2, "the speeds of 'l40s' are not listed",
           "one of: a100, a100-40, h100, h200; or give --flops, --memory and --link")
    expect(optrush("plan-mesh", "--model", "tiny", "--devices", "8", "--top", "0"), 2, "--top")
    expect(optrush("plan-mesh", "--model", "tiny", "--devices", "8", "--dtype", "bf61"), 2, "did you mean 'bf16'?")
    expect(optrush("plan-mesh", "--model", "tiny", "--devices", "8", "--flops", "4 T"), 2, "--flops is '4 T'")
    expect(optrush("plan-mesh", "--model", "tiny", "--devices", "16", *own), 2,
           "the network bandwidth of a device is unknown")
    expect(optrush("plan-mesh", "--model", "tiny", "--devices", "8", "--by", "speed"), 2, "--by")


def dry_run():
    text = expect(optrush("run", "tiny.lua", "--dry-run", "--set", "train.lr=0.5"), 0,
                  "+ gradient_accumulation { steps = 2 }", "train.lr = 0.5", "00-base-drift", "parameters")
    assert "compared with accumulated" in text.stdout
    options = ("--set", "gradient_accumulation.steps=4", "--only", "f*s?d", "--only", "acc*")
    expect(optrush("run", "tiny.lua", "--dry-run", *options), 0, "+ gradient_accumulation { steps = 4 }",
           "--only: fused, accumulated, and the base")
    base = expect(optrush("run", "tiny.lua", "--dry-run", "--only", "base"), 0, "--only: base\n").stdout
    assert "model.dim = " in base and "train.steps = 3\n" in base and "timeout_s = " not in base, base
    assert re.search(r"and the defaults of \d\d other settings, which --json has\n", base), base
    (work / "compiled.lua").write_text(SCRIPT.replace('"fused", "fused_adamw"', '"compiled", "compile"'))
    expect(optrush("run", "compiled.lua", "--dry-run"), 0,
           "; bounds: units compiled by 'compile' are assumed to need no more", "interleaved from round 2 on")
    for options in (("--rounds", "1"), ("--interleave", "off")):
        planned = expect(optrush("run", "compiled.lua", "--dry-run", *options), 0).stdout
        assert "interleaved from" not in planned, options
    (work / "sized.lua").write_text(SCRIPT.replace("seq_len = 16", 'seq_len = rush.arg("length", 16)'))
    expect(optrush("run", "sized.lua", "--dry-run", "--arg", "length=8"), 0, "argument length = 8", "train.seq_len = 8")
    shown = json.loads(expect(optrush("run", "tiny.lua", "--dry-run", "--json", "--rounds", "1"), 0).stdout)
    table = expect(optrush("run", "tiny.lua", "--dry-run", "--costs", "--device", "cuda"), 0, "# tiny").stdout
    costs = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(costs) == len(shown[0]["variants"]) and all(int(row[1].replace(",", "")) > 100 for row in costs), table
    assert all(row[2] == "0" for row in costs), "no rung waits for the host"
    expect(optrush("run", "tiny.lua", "--costs"), 2, "--dry-run")
    too_short_texts()
    too_few_documents()
    planned_for_a_gpu()
    assert [variant["name"] for variant in shown[0]["variants"]] == ["base", "accumulated", "fused"]
    assert shown[0]["plans"][1]["problem"]["accumulation"] == 2
    assert not (work / "reports").exists()


def too_short_texts():
    (work / "text.txt").write_text("x" * 40)
    (work / "text.lua").write_text(SCRIPT.replace("rush.random()", 'rush.text(rush.arg("file", "text.txt"))'))
    expect(optrush("run", "text.lua", "--dry-run"), 0)
    expect(optrush("run", "text.lua", "--dry-run", "--set", "train.seq_len=40"), 1,
           "text.txt' has 40 tokens, but one sample needs 41 (seq_len + 1)")
    held_out = ("--set", "validate.every=1", "--set", "validate.sequences=2")
    expect(optrush("run", "text.lua", "--dry-run", *held_out), 1, "validate holds out 2")
    expect(optrush("run", "text.lua", "--dry-run", "--set", "train.epochs=1", "--set", "train.warmup=1"), 1,
           "no step is timed")


def too_few_documents():
    """A dry run reads documents, and refuses them in the words of the run."""
    (work / "lines.jsonl").write_text(4 * '{"text": "a line"}\n')
    (work / "lines.lua").write_text(SCRIPT.replace("rush.random()", 'rush.documents "lines.jsonl"'))
    held_out = lambda sequences: ("--set", "validate.every=1", "--set", f"validate.sequences={sequences}")
    expect(optrush("run", "lines.lua", "--dry-run", *held_out(3)), 0)
    refusal = "no document is left for training: validate holds out 4 of 4 documents"
    expect(optrush("run", "lines.lua", "--dry-run", *held_out(4)), 1, refusal, "give more documents")
    expect(optrush("run", "lines.lua", "--dry-run", "--set", "train.epochs=1", "--set", "train.warmup=2"), 1,
           "no step is timed")


def planned_for_a_gpu():
    expect(optrush("run", "tiny.lua", "--dry-run", "--as-gpu", "h10"), 2, "unknown GPU 'h10'", "did you mean 'h100'?")
    expect(optrush("run", "tiny.lua", "--as-gpu", "h100"), 2, "--as-gpu needs --dry-run")
    expect(optrush("run", "tiny.lua", "--dry-run", "--as-gpu", "a100-40"), 0,
           "planned for: A100 40GB, 39.4 GiB (sm_80)", "cuBLAS workspaces ", " reserved")
    table = expect(optrush("run", "tiny.lua", "--dry-run", "--costs", "--as-gpu", "80"), 0, "| reserved |").stdout
    assert "CUDA context" in table
    wide_rung = SCRIPT.replace('"fused", "fused_adamw"', '"wide", { model = { ffn_dim = 400000000 } }')
    (work / "too_much.lua").write_text(wide_rung)
    shown = json.loads(expect(optrush("run", "too_much.lua", "--dry-run", "--json", "--as-gpu", "80"), 0).stdout)[0]
    assert shown["as_gpu"] == {"name": "H100 80GB", "memory_bytes": round(79.1 * 2**30), "sm": "sm_90"}, shown["as_gpu"]
    plans = {variant["name"]: plan for variant, plan in zip(shown["variants"], shown["plans"])}
    assert plans["base"]["status"] == "planned"
    wide = plans["wide"]
    assert wide["status"] == "skipped" and wide["reason"].startswith("a step needs "), wide["reason"]
    memory = wide["memory"]
    assert memory["least_bytes"] > memory["available_bytes"] == shown["as_gpu"]["memory_bytes"], memory
    assert wide["costs"]["total"]["launches"] > 0


def mistakes():
    """Habits from other frameworks."""
    (work / "other.lua").write_text(SCRIPT.replace("micro_batch = 2", "batch_size = 2"))
    expect(optrush("run", "other.lua"), 1, "other.lua", "unknown field 'batch_size'", "did you mean 'micro_batch'?")
    expect(optrush("run", "tiny.lua", "--set", "train.learning_rate=1"), 2, "did you mean 'lr'?")
    done = expect(optrush("run", "tiny.lua", "--set", "train.world_size=2", "--label", "ranks"), 1,
                  "2 data-parallel ranks, but no stacked plugin", "stack ddp or fsdp", "nothing was measured")
    assert "tensor_parallel" not in done.stderr, done.stderr
    expect(optrush("run", "lines.lua", "--set", "validate.every=1", "--set", "validate.sequences=4"), 1,
           "base: failed, no document is left for training: validate holds out 4 of 4 documents")


run_cases(usage, commands_as_typed, listings, experiments_for_programs, plan_mesh, dry_run, mistakes)
