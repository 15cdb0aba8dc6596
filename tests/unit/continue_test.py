"""Runs that save their state and are interrupted, once and repeatedly: `--resume` continues from the last state.

Training equals an uninterrupted run to the bit, on one rank and on two. A run that gets a stop signal saves once more,
all ranks after the same step, whichever process gets the signal. `--resume` continues a run that another program ended;
a run with another bad end needs `--retry`."""
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time

OPTRUSH = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]) / "bin/optrush"
STEPS, WARMUP, EVERY = 240, 2, 40
SCRIPT = f"""
local rush = require "optrush"
local exp = rush.experiment {{
  name = "long",
  model = rush.llama("nano"),
  data = rush.text "text.txt",
  threads = 1,
  train = {{ micro_batch = 4, seq_len = 32, steps = {STEPS}, warmup = {WARMUP}, lr = 1e-3 }},
  validate = {{ every = 50, sequences = 4 }},
  save = {{ every = {EVERY} }},
}}
exp:ladder {{
  rush.rung("shards", "fsdp", {{ stage = 3 }}, {{ train = {{ world_size = 2, micro_batch = 2 }} }}),
}}
exp:run {{ rounds = 1 }}
"""
RUNS = {"00-base-r1": "metrics.jsonl", "01-shards-r1": "ranks/0/metrics.jsonl"}


def start(label, *more):
    command = [OPTRUSH, "run", "long.lua", "--device", "cpu", "--label", label, *more]
    return subprocess.Popen(command, cwd=work, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run(label, *more, code=0):
    process = start(label, *more)
    text, _ = process.communicate(timeout=300)
    assert process.returncode == code, text
    return text


def folder_of(label, name):
    return work / "reports/long" / label / "runs" / name


def result_of(label, name):
    file = folder_of(label, name) / "result.json"
    return json.loads(file.read_text()) if file.exists() else None


def lines(label, name):
    try:
        return [json.loads(line) for line in (folder_of(label, name) / RUNS[name]).read_text().splitlines(keepends=True)
                if line.endswith("\n")]
    except FileNotFoundError:
        return []


def wait_for(condition, process):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()[0]
        time.sleep(0.005)


def saved(label, name):
    return [line["step"] for line in lines(label, name) if line["event"] == "saved"]


def worker_of(process, rank=None):
    """The process id of a worker that the controller started."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            words = (entry / "cmdline").read_text().split("\0")
            if int(fields[1]) == process.pid and "run" in words and (
                    rank is None or words[words.index("--rank") + 1] == str(rank)):
                return int(entry.name)
        except (OSError, IndexError, ValueError):
            continue
    return None


def check_equal(label, name, interruptions):
    whole, here = result_of("whole", name), result_of(label, name)
    assert here["status"] == "ok", here["reason"]
    for key in ("step", "loss", "grad_norm", "learning_rate", "tokens", "processed_tokens", "positions",
                "attention_pairs"):
        want, have = [[step[key] for step in result["steps"]] for result in (whole, here)]
        assert want == have, (name, key)
    assert [(point["step"], point["loss"]) for point in whole["validation"]] == [
        (point["step"], point["loss"]) for point in here["validation"]], name
    regular = [point["step"] for point in here["saved"]
               if point["step"] % EVERY == 0 or point["step"] == STEPS + WARMUP]
    # Figures include all timed steps of all processes.
    for flops, value in whole["flops_per_token"].items():
        assert abs(here["flops_per_token"][flops] - value) <= 1e-9 * value, (name, flops)
    assert [point["step"] for point in whole["saved"]] == regular, name
    # The metrics have the whole run too.
    told = lines(label, name)
    assert [line["step"] for line in told if line["event"] == "step"] == list(range(STEPS + WARMUP)), name
    validations = [line["step"] for line in told if line["event"] == "validation"]
    assert validations == [point["step"] for point in here["validation"]]
    # Each process begins with warm-up steps.
    untimed = {step["step"] for step in here["steps"] if not step["timed"]}
    warmups = {at + i for at in (0, *interruptions) for i in range(WARMUP)}
    assert untimed == warmups - {STEPS + WARMUP, STEPS + WARMUP + 1}, (
        untimed, interruptions)
    notes = [note for note in here["notes"] if "interrupted" in note]
    if interruptions:
        at_steps = "at step " + ", ".join(map(str, interruptions)) + ","
        assert len(notes) == 1 and at_steps in notes[0], (notes, interruptions)
    else:
        assert not notes, notes


def interrupted_once():
    """Steps before the state keep their times; later steps are repeated."""
    for name in RUNS:
        process = start("cut", "--resume")
        wait_for(lambda name=name: len(saved("cut", name)) >= 2, process)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=60)
        assert process.returncode == 130 and "--resume" in text, text
        assert result_of("cut", name) is None
        state = json.loads((folder_of("cut", name) / "state/state.json").read_text())["step"]
        before = {line["step"]: line["seconds"] for line in lines("cut", name) if line["event"] == "step"}
        assert max(before) + 1 == state >= 2 * EVERY, "it saves after the current step"
        only = ("--only", "base") if name == "00-base-r1" else ()
        text = run("cut", "--resume", *only)
        assert f"{name} continues from its state before step {state}" in text, text
        check_equal("cut", name, [state])
        after = {step["step"]: step["seconds"] for step in result_of("cut", name)["steps"]}
        assert all(after[step] == before[step] for step in range(state)), name
    report = (work / "reports/long/cut/report.md").read_text()
    assert "it was interrupted and continued from its saved state" in report, report
    assert "continues from its state" not in run("cut", "--resume")


def killed_repeatedly():
    """SIGKILL to the controller or a worker at any moment: the result is always the same."""
    order = random.Random(7)
    went_on = {name: 0 for name in RUNS}
    kills = 0
    for _ in range(40):
        process = start("killed", "--resume", "--retry")
        while process.poll() is None and not worker_of(process):
            time.sleep(0.01)
        # Kill after some more states, or before the first one; then soon after the state or between two states.
        before, states = sum(len(saved("killed", name)) for name in RUNS), order.choice([0, 1, 1, 2])
        while process.poll() is None and sum(len(saved("killed", name)) for name in RUNS) < before + states:
            time.sleep(0.01)
        time.sleep(order.uniform(0, 0.3))
        if process.poll() is None and kills < 6:
            os.kill(order.choice([worker_of(process) or process.pid, process.pid]), signal.SIGKILL)
            kills += 1
        text, _ = process.communicate(timeout=120)
        for name in RUNS:
            went_on[name] += f"{name} continues from its state" in text
        if process.returncode == 0:
            break
    assert process.returncode == 0, text
    print(f"{kills} kills, continued: {went_on}")
    assert kills >= 3 and sum(went_on.values()) >= 1, (kills, went_on)
    for name in RUNS:
        here = result_of("killed", name)
        for key in ("step", "loss", "grad_norm"):
            undisturbed = [step[key] for step in result_of("whole", name)["steps"]]
            assert [step[key] for step in here["steps"]] == undisturbed, (name, key)


def after_the_last_save():
    """A run that lacks only its result is not trained again."""
    name = "01-shards-r1"
    before = result_of("cut", name)
    (folder_of("cut", name) / "result.json").unlink()
    assert f"{name} continues from its state before step {STEPS + WARMUP}" in run("cut", "--resume")
    here = result_of("cut", name)
    for key in ("steps", "memory", "collectives", "costs", "tokens_per_second", "validation"):
        assert here[key] == before[key], key
    assert [point["step"] for point in here["saved"]] == [point["step"] for point in before["saved"]]
    assert len(here["ranks"]) == 2


def state_of(label, name):
    return json.loads((folder_of(label, name) / "state/state.json").read_text())["step"]


def bad_end():
    """Another program kills a worker: --resume continues the run."""
    process = start("bad", "--only", "base")
    wait_for(lambda: saved("bad", "00-base-r1") and worker_of(process), process)
    os.kill(worker_of(process), signal.SIGKILL)
    text = process.communicate(timeout=60)[0]
    result = result_of("bad", "00-base-r1")
    assert "killed" in text and result["cause"] == "lost", (text, result)
    state = state_of("bad", "00-base-r1")
    # The timeout is no part of a run's identity.
    text = run("bad", "--only", "base", "--resume", "--set", "timeout=1234")
    assert f"00-base-r1 is rerun: it ended as '{result['status']}'" in text, text
    assert f"continues from its state before step {state}" in text, text
    check_equal("bad", "00-base-r1", [state])


def out_of_time():
    """A run saves before its timeout; its row stays, and --retry continues it."""
    name = "00-base-r1"
    text = run("late", "--only", "base", "--set", "train.steps=1000000", "--set", "timeout=6", code=1)
    assert result_of("late", name)["status"] == "timeout" and "cause" not in result_of("late", name), text
    state = state_of("late", name)
    assert max(line["step"] for line in lines("late", name) if line["event"] == "step") + 1 == state, state
    more = ("--only", "base", "--set", "train.steps=1000000", "--set", "timeout=3")
    assert "continues from its state" not in run("late", *more, "--resume", code=1)
    assert f"continues from its state before step {state}" in run("late", *more, "--resume", "--retry", code=1)


def stopped_by_a_signal():
    """Each process of a run with two ranks may get the signal first; the others get it later, or never."""
    name = "01-shards-r1"
    interruptions = []
    for first, then in ((1, "controller"), (0, "controller"), ("controller", 1)):
        process = start("told", "--only", "shards", "--resume")
        already = interruptions[-1] if interruptions else 0
        made = lambda: [line["step"] for line in lines("told", name) if line["event"] == "step"]
        wait_for(lambda: max(made(), default=0) > already + 5, process)
        pid = {"controller": process.pid, **{rank: worker_of(process, rank) for rank in (0, 1)}}
        os.kill(pid[first], signal.SIGTERM)
        time.sleep(0.3)
        try:
            os.kill(pid[then], signal.SIGTERM)
        except ProcessLookupError:
            assert then != "controller"
        text, _ = process.communicate(timeout=60)
        assert process.returncode == 143 and result_of("told", name) is None, text
        interruptions.append(state_of("told", name))
        assert max(line["step"] for line in lines("told", name) if line["event"] == "step") + 1 == interruptions[-1]
    run("told", "--only", "shards", "--resume")
    check_equal("told", name, interruptions)
    # A signal to one worker only: all ranks save, and --resume continues the run without --retry.
    process = start("worker", "--only", "shards")
    wait_for(lambda: [line for line in lines("worker", name) if line["event"] == "step"], process)
    os.kill(worker_of(process, 1), signal.SIGTERM)
    text, _ = process.communicate(timeout=60)
    result = result_of("worker", name)
    assert process.returncode == 1 and result["cause"] == "lost", (text, result)
    assert "ended by SIGTERM" in result["reason"], (text, result)
    state = state_of("worker", name)
    assert f"continues from its state before step {state}" in run("worker", "--only", "shards", "--resume")
    check_equal("worker", name, [state])


def states_of_other_runs_are_refused():
    """No run continues from a state of another spec, of other data or of an interleaved run."""
    name = "00-base-r1"

    def cut(label):
        process = start(label, "--only", "base")
        wait_for(lambda: saved(label, name), process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    cut("other")
    text = run("other", "--only", "base", "--resume", "--set", "train.lr=2e-3")
    assert "continues from its state" not in text, text
    assert len(result_of("other", name)["steps"]) == STEPS + WARMUP

    cut("changed")
    with open(work / "text.txt", "a") as text:
        text.write("one more line\n")
    text = run("changed", "--only", "base", "--resume")
    assert "does not continue from its state" in text and "has changed: a file that it reads" in text, text

    process = start("turns", "--interleave", "on")
    wait_for(lambda: saved("turns", name), process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    state = folder_of("turns", name) / "state"
    assert list(state.glob("step-*/*.safetensors"))
    assert not list(state.glob("step-*/*.json")), "no run continues from the state of an interleaved one"


def another_batch():
    """A run that starts with another micro-batch, accumulation or number of ranks reads every sequence once.

    With another sequence length it begins with the first sequence and says so.
    """
    def trained(name, train, more="", seq_len=16):
        (work / f"{name}.lua").write_text(f"""
local rush = require "optrush"
local exp = rush.experiment {{
  name = "{name}", model = rush.llama("nano"), data = rush.text "text.txt", threads = 1,
  train = {{ seq_len = {seq_len}, warmup = 0, lr = 1e-9, weight_decay = 0, {train} }}, {more}
}}
exp:run {{ rounds = 1 }}
""")
        done = subprocess.run([OPTRUSH, "run", f"{name}.lua", "--device", "cpu"], cwd=work, capture_output=True,
                              text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        result = json.loads((work / f"reports/{name}/local/runs/00-base-r1/result.json").read_text())
        return [step["loss"] for step in result["steps"]], [note for note in result["notes"] if "sequences" in note]

    def after(name, more=""):
        return f'start = "reports/{name}/local/runs/00-base-r1", save = {{ every = 2 }}, {more}'

    alone, _ = trained("alone", "micro_batch = 1, steps = 12")
    pairs = [sum(alone[i:i + 2]) / 2 for i in range(0, 12, 2)]
    first, _ = trained("first", "micro_batch = 2, steps = 2", "save = { every = 2 },")
    second, said = trained("second", "micro_batch = 1, accumulation = 2, steps = 2", after("first"))
    more = after("second", 'plugins = { "ddp" },')
    third, more = trained("third", "micro_batch = 1, world_size = 2, steps = 1", more)
    last, _ = trained("last", "micro_batch = 1, steps = 2", after("third"))
    assert not said and not more, (said, more)
    for have, want in zip([*first, *second, *third, *last], [*pairs[:5], *alone[10:]], strict=True):
        assert abs(have - want) < 1e-5 * want, (first, second, third, last, alone)
    shorter, _ = trained("shorter", "micro_batch = 1, steps = 2", seq_len=8)
    other, said = trained("other_length", "micro_batch = 1, steps = 2", after("last"), seq_len=8)
    assert len(said) == 1 and "start from their first sequence" in said[0], said
    assert all(abs(have - want) < 1e-5 * want for have, want in zip(other, shorter)), (other, shorter)


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    (work / "long.lua").write_text(SCRIPT)
    (work / "text.txt").write_text("".join(
        f"line {i * i % 97}: the sum of {i % 7} and {i % 5} is {i % 7 + i % 5}\n" for i in range(3000)))
    run("whole")
    for case in (interrupted_once, after_the_last_save, stopped_by_a_signal, bad_end, out_of_time, killed_repeatedly,
                 states_of_other_runs_are_refused, another_batch):
        began = time.monotonic()
        case()
        print(f"{case.__name__} passed after {time.monotonic() - began:.0f} s", flush=True)
