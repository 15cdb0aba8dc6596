"""The command line of `optrush` with runs of its worker, on a model that trains in a moment."""
import json
import pathlib
import re
import signal
import subprocess
import time

from cli_support import OPTRUSH, SCRIPT, expect, optrush, run_cases, work


def results(label):
    return sorted(path.parent.name for path in (work / "reports/tiny" / label).glob("runs/*/result.json"))


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


def folders_without_state():
    """The messages of `weights` and of `start` name the runs nearby that have a state."""
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
    started = lambda start: (work / "started.lua").write_text(
        SCRIPT.replace("}\nexp:ladder", f"  start = {json.dumps(str(start))},\n}}\nexp:ladder"))
    started(report / "runs/02-fused-r2")
    expect(optrush("run", "started.lua", "--dry-run"), 1, "started.lua:3: no state was saved in",
           f"the state of this rung is in '{report}/runs/02-fused-r1'; relative paths start at")
    started(report)
    expect(optrush("run", "started.lua", "--dry-run"), 1, "is a report, not a run", "have a saved state: 00-base-r1")


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


run_cases(run_and_resume, folders_without_state, repeat_alone, commands_of_the_worker, too_large, time_limit,
          equal_stacks, trials, forks, searches, interrupt)
