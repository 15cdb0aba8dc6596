"""The command line of `optrush` with its worker, on a model that trains in a moment."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

OPTRUSH = os.path.join(os.environ["OPTRUSH_BUILD_DIR"], "bin", "optrush")
SCRIPT = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "tiny",
  question = "Does the command line work?",
  model = rush.llama("nano"),
  data = rush.random(),
  train = { micro_batch = 2, seq_len = 16, steps = 3, warmup = 1 },
}
exp:ladder {
  rush.rung("accumulated", "gradient_accumulation", { steps = 2 }),
  rush.rung("fused", "fused_adamw"),
}
exp:run { rounds = 2 }:report()
"""


def optrush(*arguments, charts=False):
    """Draws no charts by default, because they take a second."""
    environment = os.environ if charts else {**os.environ, "OPTRUSH_PYTHON": "/bin/false"}
    return subprocess.run([OPTRUSH, *arguments], capture_output=True, text=True, cwd=work, env=environment)


def expect(done, code, *texts):
    everything = done.stdout + done.stderr
    assert done.returncode == code, f"exit code {done.returncode} instead of {code}:\n{everything}"
    for text in texts:
        assert text in everything, f"{text!r} is not in:\n{everything}"
    assert "\x1b" not in everything, "escape sequences outside of a terminal"
    return done


def results(label):
    return sorted(path.parent.name for path in (work / "reports/tiny" / label).glob("runs/*/result.json"))


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


def commands_of_the_worker():
    """The worker parses the arguments of these commands, and its messages are those of the program."""
    for command, wrong, right in (("doctor", "--jsn", "--json"), ("forward", "--modle", "--model"),
                                  ("weights", "--merg", "--merge"), ("worker run", "--spek", "--spec")):
        words = command.split()
        expect(optrush(*words, "--help"), 0, f"Usage: optrush {command} [OPTIONS]")
        expect(optrush(*words, wrong), 2,
               f"optrush: error[unknown_name]: optrush {command} has no option '{wrong}'",
               f"did you mean '{right}'? Or see optrush {command} --help")
    expect(optrush("forward"), 2, "optrush: error[usage]: --model is required", "see optrush forward --help")
    expect(optrush("doctor", "--threads", "all"), 2, "--threads must be a whole number, but is 'all'")
    expect(optrush("worker", "plann"), 2, "there is no command 'plann'", "did you mean 'plan'?")
    expect(optrush("weights", "nowhere/at/all", "out"), 1, "optrush: error[missing_file]: there is no folder 'nowhere")


def weights_without_state():
    """The message names the runs nearby that have a state."""
    saving = SCRIPT.replace("}\nexp:ladder", "  save = { every = 3 },\n}\nexp:ladder").replace("tiny", "saving")
    (work / "saving.lua").write_text(saving)
    expect(optrush("run", "saving.lua", "--resume"), 0, "there is no report in", "reports/saving/local' to resume")
    report = work / "reports/saving/local"
    for folder in ("02-fused-r2", "02-fused-r2/", "02-fused-r2/state"):
        expect(optrush("weights", f"{report}/runs/{folder}", "out"), 1, "no state was saved in",
               f"the state of this rung is in '{report}/runs/02-fused-r1'")
    expect(optrush("weights", report / "runs/02-fuzed-r1", "out"), 1, "there is no folder",
           f"did you mean '{report}/runs/02-fused-r1'?")
    expect(optrush("weights", report, "out"), 1, "is a report, not a run",
           "have a saved state: 00-base-r1, 01-accumulated-r1, 02-fused-r1")
    expect(optrush("weights", "reports/tiny/kept/runs/00-base-r1", "out"), 1, "no state was saved in",
           "save = { every = ... } in the script")
    expect(optrush("weights", report / "runs/02-fused-r1", "out"), 0, "the model as it was after")


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
    planned_for_a_gpu()
    assert [variant["name"] for variant in shown[0]["variants"]] == ["base", "accumulated", "fused"]
    assert shown[0]["plans"][1]["problem"]["accumulation"] == 2
    assert not (work / "reports").exists()


def run_and_resume():
    done = expect(optrush("run", "tiny.lua", "--label", "kept", "--rounds", "1", charts=True), 0)
    assert re.search(r"^\[1/\d\] base, round 1/1 interleaved: ok, [\d.,]+ tokens/s, ", done.stderr, re.M), done.stderr
    assert "tokens/s" in done.stdout and "reports/tiny/kept/report.md" in done.stdout
    report = work / "reports/tiny/kept"
    charts = sorted(report.glob("*.svg"))
    assert charts, "the run draws charts"
    expect(optrush("run", "tiny.lua", "--label", "kept"), 2, "--resume")
    before = results("kept")
    expect(optrush("run", "tiny.lua", "--label", "kept", "--rounds", "1", "--resume"), 0, "are already complete")
    assert results("kept") == before
    expect(optrush("report", "reports/tiny/kept", charts=True), 0, "base", "fused")
    assert sorted(report.glob("*.svg")) == charts
    both = ("compare", "reports/tiny/kept", "reports/tiny/kept")
    expect(optrush(*both), 0, "fused", "B vs A", "The context is the same")
    expect(optrush(*both, "reports/tiny/kept", "--markdown"), 0, "| rung |", "C vs A")
    compared = json.loads(expect(optrush(*both, "--json"), 0).stdout)
    assert [line["rung"] for line in compared["rungs"]] == ["base", "accumulated", "fused"]
    expect(optrush("compare", "reports/tiny/kept"), 2, "two reports or more")
    expect(optrush(*both, "--json", "--markdown"), 2, "--json")


def repeat_alone():
    spec = "reports/tiny/kept/runs/00-base-r1/spec.json"
    again = json.loads(optrush("worker", "--spec", spec).stdout)
    assert again["status"] == "ok" and len(again["steps"]) == 4
    plan = json.loads(optrush("worker", "--spec", spec, "--plan").stdout)
    assert plan["problem"]["seq_len"] == 16
    expect(optrush("worker", "--spec", spec, "--out", "alone"), 0)
    assert (work / "alone/result.json").exists()
    expect(optrush("worker", "--spec", "none.json"), 1, "none.json")
    # OpenMP prints its settings when it is loaded, before the worker reads its spec.
    told = json.loads((work / spec).read_text())
    told["env"] = {"OMP_DISPLAY_ENV": "true"}
    (work / "told.json").write_text(json.dumps(told))
    told_so = expect(optrush("worker", "--spec", "told.json", "--out", "told"), 0, "OPENMP DISPLAY ENVIRONMENT BEGIN")
    assert "OMP_WAIT_POLICY = 'PASSIVE'" in told_so.stdout + told_so.stderr, "threads sleep as in the experiment's run"
    assert json.loads((work / "told/result.json").read_text())["status"] == "ok"
    expect(optrush("worker"), 2, "--spec FILE")


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


def too_large():
    (work / "large.lua").write_text("""
local rush = require "optrush"
local exp = rush.experiment {
  name = "large",
  model = rush.operator("mlp", { dim = 8, ffn_dim = 16 }),
  train = { micro_batch = 1, seq_len = 4, steps = 2, warmup = 1 },
}
exp:ladder { rush.rung("wide", { model = { dim = 1000000, ffn_dim = 4000000 } }) }
exp:run { rounds = 1 }:report()
""")
    done = expect(optrush("run", "large.lua"), 0, "wide: skipped")
    assert re.search(r"a step needs [\d.]+ TiB \([\d,]+ bytes\), but this machine has", done.stdout), done.stdout
    expect(optrush("run", "large.lua", "--dry-run"), 0, "predicted peak", "skipped: a step needs",
           "; --dry-run --as-gpu GPU plans it for another GPU")
    # A base that does not fit: nothing is measured, and the message names a batch that fits.
    batch = lambda sequences: ("--set", f"train.micro_batch={sequences}", "--set", "train.seq_len=4096",
                               "--only", "wide")
    advice = r"train.micro_batch = (\d+) fits, with accumulation = \d+"
    done = expect(optrush("run", "large.lua", *batch(3 << 18)), 1, "base: skipped, a step needs",
                  "nothing was measured: base ended as 'skipped'")
    assert re.search(advice, done.stderr), done.stderr
    # The free memory of this machine changes from one command to the next. That of a planned GPU does not.
    planned = lambda sequences: optrush("run", "large.lua", *batch(sequences), "--dry-run", "--as-gpu", "80").stdout
    fits = int(re.search(advice, planned(3 << 18))[1])
    assert fits & (fits - 1) == 0
    base = lambda sequences: planned(sequences).split("1  wide")[0]
    assert "predicted peak" in base(fits) and "skipped: a step needs" in base(2 * fits)


def mistakes():
    """Habits from other frameworks."""
    (work / "other.lua").write_text(SCRIPT.replace("micro_batch = 2", "batch_size = 2"))
    expect(optrush("run", "other.lua"), 1, "other.lua", "unknown field 'batch_size'", "did you mean 'micro_batch'?")
    expect(optrush("run", "tiny.lua", "--set", "train.learning_rate=1"), 2, "did you mean 'lr'?")
    done = expect(optrush("run", "tiny.lua", "--set", "train.world_size=2", "--label", "ranks"), 1,
                  "2 data-parallel ranks, but no stacked plugin", "stack ddp or fsdp", "nothing was measured")
    assert "tensor_parallel" not in done.stderr, done.stderr


def time_limit():
    """A limit that is too short for three rounds of all steps: runs are shortened, and the report says so.
    The unit test OpenRounds has simulated time and requires three rounds."""
    def limited(label, run, steps):
        (work / "limited.lua").write_text(f"""
local rush = require "optrush"
local exp = rush.experiment {{ name = "limited", model = rush.llama("nano"), data = rush.random(), threads = 1,
                              train = {{ micro_batch = 2, seq_len = 16, steps = {steps}, warmup = 2 }} }}
exp:ladder {{ rush.rung("fused", "fused_adamw") }}
exp:run {run}:report()
""")
        return optrush("run", "limited.lua", "--label", label)

    # The limit has room for the starts of three rounds on a loaded machine.
    began = time.monotonic()
    expect(limited("short", "{ rounds = 1 }", 4), 0)
    limit = max(10, round(8 * (time.monotonic() - began)))
    done = limited("local", f'{{ within = 0.03, at_most = "{limit}s" }}', 20000 * limit)
    expect(done, 0, "would take about", "but the limit is ")
    runs = [json.loads(path.read_text()) for path in (work / "reports/limited/local").glob("runs/*-r*/result.json")]
    counts = [(run["cut"], len(run["steps"])) for run in runs]
    assert len(runs) >= 4 and all(cut == "time limit" and 4 <= steps < 20000 * limit for cut, steps in counts), counts
    text = (work / "reports/limited/local/report.md").read_text()
    # A machine that becomes several times slower in the second round has no time for a third one.
    assert ("no claim" in text.split("##")[0]) == (len(runs) < 6), text
    assert f"The time limit was too short for 3 rounds of {20000 * limit} steps." in text, text


def equal_stacks():
    """A ladder and the ablation of the same rungs: equal stacks are planned and run once."""
    rungs = '{ rush.rung("fused", "fused_adamw"), rush.rung("flash", "flash_attention") }'
    (work / "both.lua").write_text(f"""
local rush = require "optrush"
local exp = rush.experiment {{ name = "both", model = rush.llama("nano"),
                              train = {{ micro_batch = 2, seq_len = 16, steps = 2, warmup = 1 }} }}
exp:ladder{rungs}:ablation{rungs}
exp:run {{ rounds = 1 }}:report()
""")
    shown = expect(optrush("run", "both.lua", "--dry-run"), 0, "identical to flash", "identical to fused").stdout
    listed = shown[shown.index("order of runs"):].split()[3:]
    assert listed == ["00-base-r1", "01-fused-r1", "02-flash-r1", "04-without-fused-r1", "00-base-drift"], listed
    expect(optrush("run", "both.lua"), 0, "full has the same stack as flash")
    rows = json.loads((work / "reports/both/local/results.json").read_text())["rows"]
    assert rows[3]["same_as"] == 2 and rows[3]["samples"] == rows[2]["samples"]
    assert sorted(path.name for path in (work / "reports/both/local/runs").iterdir()) == sorted(listed)


def trials():
    """batch = "max" with runs that confirm it, and their results in a resumed script."""
    (work / "filled.lua").write_text("""
local rush = require "optrush"
local exp = rush.experiment { name = "filled", model = rush.llama("nano"),
                              train = { micro_batch = 2, accumulation = 4, seq_len = 16, steps = 2, warmup = 1 } }
exp:ladder({ rush.rung("fused", "fused_adamw") }, { batch = "max", memory = "1GB", trial = true })
exp:run { rounds = 1 }:report()
""")
    expect(optrush("run", "filled.lua", "--dry-run"), 0, "train.micro_batch = 8", "train.accumulation = 1")
    assert not (work / "reports/trials.jsonl").exists(), "a dry run tries nothing"
    expect(optrush("run", "filled.lua"), 0)
    answers = [json.loads(line) for line in (work / "reports/trials.jsonl").read_text().splitlines()]
    assert [(answer["micro_batch"], answer["holds"]) for answer in answers] == [(8, True)], answers
    assert 0 < answers[0]["peak_bytes"] < 1e9
    # The record now says that the run did not fit: a resumed script halves the batch.
    answers[0]["holds"] = False
    (work / "reports/trials.jsonl").write_text(json.dumps(answers[0]))
    expect(optrush("run", "filled.lua", "--resume"), 0, "do not belong to the present experiment")
    spec = json.loads((work / "reports/filled/local/runs/01-fused-r1/spec.json").read_text())
    assert (spec["train"]["micro_batch"], spec["train"]["accumulation"]) == (4, 2)
    lines = (work / "reports/trials.jsonl").read_text().splitlines()
    assert len(lines) == 2, "four sequences were tried, eight were not tried again"


def forks():
    """One process that has loaded LibTorch plans all tried batches and variants."""
    (work / "planned.lua").write_text("""
local rush = require "optrush"
local exp = rush.experiment { name = "planned", model = rush.llama("nano"),
                              train = { micro_batch = 2, accumulation = 4, seq_len = 16, steps = 2, warmup = 1 } }
exp:ladder({ rush.rung("accumulated", "gradient_accumulation", { steps = 2 }), rush.rung("fused", "fused_adamw") },
           { batch = "max", memory = "1GB" })
exp:run { rounds = 1 }
""")
    log = expect(optrush("run", "planned.lua", "--dry-run", "--verbose"), 0, "train.micro_batch = 8").stderr
    servers = re.findall(r"started (\d+): \S+/optrush-worker fork-server --plans --room\n", log)
    plans = re.findall(r"forked (\d+): \S+/optrush-worker plan ", log)
    assert len(servers) == 1 and len(set(plans)) == len(plans) > 3, log
    assert "optrush-worker plan" not in re.sub("forked .*", "", log), log
    for pid in servers + plans:
        assert not pathlib.Path("/proc", pid, "exe").exists(), f"{pid} still runs"


def searches():
    (work / "search.lua").write_text("""
local rush = require "optrush"
local exp = rush.experiment {
  name = "best", model = rush.llama("nano"), train = { micro_batch = 2, seq_len = 16, steps = 2 },
}
exp:search({ rush.rung("fused", "fused_adamw") }, { at_most = "1m" }):report()
""")
    # Without an answer the base runs only for its row: few steps, and no validation.
    (work / "short.lua").write_text("""
local rush = require "optrush"
local exp = rush.experiment {
  name = "short", model = rush.llama "nano", train = { micro_batch = 2, seq_len = 16, steps = 20000 },
  validate = { every = 10000, sequences = 2, patience = 2 },
}
exp:search({ rush.rung("fused", "fused_adamw") }, { at_most = "1s" }):report()
""")
    done = optrush("run", "short.lua")
    assert "short: the base, 200" in done.stdout + done.stderr, (done.stdout, done.stderr)
    assert done.returncode == 0 and "the search has no answer yet" in done.stdout, (done.stdout, done.stderr)
    result = json.loads((work / "reports/short/local/runs/00-base-r1/result.json").read_text())
    assert result["status"] == "ok" and len(result["steps"]) < 100 and not result.get("validation"), result
    tried = work / "reports/short/local/tried.json"
    tried.write_text(tried.read_text() + " ")
    expect(optrush("report", tried.parent), 1, "tried.json: was changed after it was written")
    expect(optrush("run", "short.lua", "--resume"), 0)
    expect(optrush("report", tried.parent), 0)
    expect(optrush("run", "search.lua", "--only", "fused"), 2, "--only cannot be combined with a search")
    expect(optrush("run", "search.lua", "--rounds", "3"), 2, "--rounds", "--within and --at-most")
    assert not (work / "reports/best").exists(), "nothing was run"


def interrupt():
    # Interleaved runs end at nearly the same time, which would leave little to interrupt.
    cut_run = ("run", "tiny.lua", "--label", "cut", "--set", "train.steps=200", "--interleave", "off", "--out",
               "reports", "--set", "threads=1", "--trace", "--only", "fus*")
    with subprocess.Popen([OPTRUSH, *cut_run], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        deadline = time.monotonic() + 90
        while not results("cut") and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "interrupted by SIGINT" in stderr, stderr
    again = stderr.split("this runs what is missing: optrush ")[1].splitlines()[0]
    assert again == ("run tiny.lua --label cut --set train.steps=200 --set threads=1 --interleave off --out reports "
                     "--trace --only 'fus*' --resume"), again
    assert "complete runs are kept in" in stderr, stderr  # a number would miss runs of earlier starts
    assert "no result yet" in (work / "reports/tiny/cut/report.md").read_text()
    cut = results("cut")
    expect(optrush(*cut_run, "--resume"), 0)
    assert set(cut) < set(results("cut"))


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    (work / "tiny.lua").write_text(SCRIPT)
    for case in (usage, listings, commands_of_the_worker, experiments_for_programs, plan_mesh, dry_run, run_and_resume,
                 weights_without_state, repeat_alone, too_large, mistakes, time_limit, equal_stacks, trials, forks,
                 searches, interrupt):
        case()
        print(case.__name__, "passed", flush=True)
