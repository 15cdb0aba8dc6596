"""Runs with max_restarts: a run of three ranks that is killed twelve times has the losses of an undisturbed run.

The losses are equal to the bit. Only the steps since the last save are repeated. The test also checks which ends count
as faults."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

OPTRUSH = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]) / "bin/optrush"
TORCHRUN = pathlib.Path(sys.prefix) / "bin" / "torchrun"
EVERY, KILLS = 20, 12
SCRIPT = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "tuned",
  model = rush.llama("nano", { vocab_size = 256 }),
  data = rush.documents "pairs.jsonl",
  device = "cpu",
  threads = 1,
  train = { micro_batch = 1, accumulation = rush.arg("accumulation", 1), seq_len = 64, steps = rush.arg("steps", 298),
            warmup = 2, lr = 1e-3, world_size = rush.arg("ranks", 3) },
  plugins = rush.arg("strategy", "") ~= "" and { { "lora", { rank = 2 } }, rush.arg("strategy", "") }
    or rush.arg("ranks", 3) > 1 and { { "lora", { rank = 2 } }, { "fsdp", { stage = 2 } } } or { "lora" },
  save = { every = rush.arg("every", 20) },
}
exp:run { rounds = 1, max_restarts = rush.arg("restarts", 0) }
"""
RUN = "00-base-r1"


def start(label, *more, **variables):
    return subprocess.Popen([OPTRUSH, "run", "tuned.lua", "--label", label, *more], cwd=work, text=True,
                            env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run(label, *more, code=0):
    process = start(label, *more)
    text, _ = process.communicate(timeout=200)
    assert process.returncode == code, (process.returncode, text)
    return text


def arguments(**values):
    return [word for name, value in values.items() for word in ("--arg", f"{name}={value}")]


def folder_of(label):
    return work / "reports/tuned" / label / "runs" / RUN


def result_of(label):
    return json.loads((folder_of(label) / "result.json").read_text())


def json_lines(file):
    try:
        return [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    except FileNotFoundError:
        return []


def journal(label, event):
    return [entry for entry in json_lines(work / "reports/tuned" / label / "journal.jsonl") if entry["event"] == event]


def metrics(label, event, rank=0):
    several = (folder_of(label) / "ranks").exists()
    file = folder_of(label) / (f"ranks/{rank}/metrics.jsonl" if several else "metrics.jsonl")
    return [line for line in json_lines(file) if line["event"] == event]


def steps_made(label):
    return len(metrics(label, "step"))


def wait_for(condition, process, limit=180):
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline or process.poll() is not None:
            process.kill()  # its output ends only with it
            raise AssertionError(process.communicate()[0])
        time.sleep(0.005)


def workers_of(process):
    """{rank: process id} of the workers that the controller started."""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            words = (entry / "cmdline").read_text().split("\0")
            if int(fields[1]) == process.pid and fields[0] != "Z" and "run" in words:
                found[int(words[words.index("--rank") + 1]) if "--rank" in words else 0] = int(entry.name)
        except (OSError, IndexError, ValueError):
            continue
    return found


def check_equal(here, whole):
    assert here["status"] == "ok", here["reason"]
    for key in ("step", "loss", "grad_norm", "learning_rate", "tokens", "processed_tokens"):
        assert [step[key] for step in here["steps"]] == [step[key] for step in whole["steps"]], key


def killed_repeatedly():
    """A random rank is killed, in a random phase, by a random signal."""
    run("whole")
    whole = result_of("whole")
    order = random.Random(34)
    process = start("killed", *arguments(restarts=KILLS))
    killed = []
    for kill in range(KILLS):
        wait_for(lambda: len(journal("killed", "restarted")) == kill and len(journal("killed", "started")) == kill + 1
                 and len(workers_of(process)) == 3, process)
        if order.random() < 0.2:
            time.sleep(order.uniform(0, 1))  # while the ranks start
        else:
            has_state = lambda: (folder_of("killed") / "state/state.json").exists()
            wait_for(lambda: metrics("killed", "continued") or kill == 0 or not has_state(), process)
            before, more = steps_made("killed"), order.randrange(2 * EVERY)
            wait_for(lambda: steps_made("killed") >= before + more, process)
        rank, number = order.randrange(3), order.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
        os.kill(workers_of(process)[rank], number)
        killed.append(rank)
    text, _ = process.communicate(timeout=100)
    assert process.returncode == 0, text
    here = result_of("killed")
    check_equal(here, whole)
    faults = journal("killed", "restarted")
    assert [fault["rank"] for fault in faults] == killed, (killed, faults)
    for fault in faults:
        assert f"rank {fault['rank']} (host " in fault["reason"], fault
        assert 0 <= fault["made"] - fault["kept"] <= EVERY and fault["kept"] % EVERY == 0, fault
    again = sum(fault["made"] - fault["kept"] for fault in faults)
    (note,) = [note for note in here["notes"] if "started again" in note]
    assert note.startswith(f"it started again {KILLS} times after a fault, and made {again} steps again: "), note
    assert note in (work / "reports/tuned/killed/report.md").read_text()
    assert text.count(" starts again (") == KILLS and f"({KILLS} of at most {KILLS})" in text, text
    # One file has the ends of all ranks for every fault, with the rank that failed first.
    ends = json_lines(folder_of("killed") / "rank_ends.jsonl")
    assert [end["rank"] for end in ends if end["end"] == "first"] == killed and len(ends) == 3 * KILLS, ends
    assert all(set(end) == {"time", "rank", "name", "step", "end", "reason"} for end in ends), ends
    # A line has its time and rank, except for steps of an earlier process.
    for rank in range(3):
        for line in metrics("killed", "step", rank):
            assert line["rank"] == rank and ("time" in line) != line.get("earlier", False), line
    furthest = max(fault["made"] for fault in faults)
    print(f"{KILLS} kills, {again} steps made again, furthest {furthest} of {len(here['steps'])}")


def run_short(label, *more, **values):
    return start(label, *arguments(**{"steps": 158, "ranks": 1, **values}), *more)


def one_process():
    """Without a saved state the run begins again with its first step. A fault after the last restart ends the run.

    --resume continues there, and the result has the faults of all starts.
    """
    run("small", *arguments(steps=158, ranks=1))
    process = run_short("one", restarts=2)
    for kill, made in enumerate((5, EVERY + 5, 2 * EVERY + 5)):
        wait_for(lambda: len(journal("one", "started")) == kill + 1 and steps_made("one") >= made, process)
        os.kill(workers_of(process)[0], signal.SIGKILL)
        wait_for(lambda: len(journal("one", "restarted")) == min(kill + 1, 2), process)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 1 and result_of("one")["cause"] == "lost", text
    assert [fault["kept"] > 0 for fault in journal("one", "restarted")] == [False, True]
    (end,) = journal("one", "finished")
    assert end["status"] == result_of("one")["status"] and end["reason"] == result_of("one")["reason"], end
    text = run("one", *arguments(steps=158, ranks=1, restarts=2), "--resume")
    here = result_of("one")
    check_equal(here, result_of("small"))
    (note,) = [note for note in here["notes"] if "started again" in note]
    assert "2 times" in note and "from the beginning: " in note and "from the state after step " in note, note


def a_rank_that_hangs():
    """A rank that hangs is ended with the others, and the run continues."""
    process = start("hung", *arguments(steps=98, ranks=2, restarts=1), OPTRUSH_COLLECTIVE_TIMEOUT="3")
    wait_for(lambda: steps_made("hung") > EVERY + 3, process)
    os.kill(workers_of(process)[1], signal.SIGSTOP)
    text, _ = process.communicate(timeout=60)
    (fault,) = journal("hung", "restarted")
    assert process.returncode == 0 and fault["rank"] == 1 and fault["status"] == "timeout", (text, fault)
    assert len(result_of("hung")["steps"]) == 100


def stopped_by_a_signal():
    """A signal is no fault: the run saves, and ends with 128 plus the signal's number."""
    for label, number in (("usr1", signal.SIGUSR1), ("term", signal.SIGTERM)):
        process = start(label, *arguments(steps=1000000, ranks=2, restarts=3, every=1000000))
        wait_for(lambda label=label: steps_made(label) > 10, process)
        process.send_signal(number)
        text, _ = process.communicate(timeout=60)
        state = json.loads((folder_of(label) / "state/state.json").read_text())["step"]
        assert process.returncode == 128 + number and state == steps_made(label), (process.returncode, state, text)
        assert not journal(label, "restarted") and not (folder_of(label) / "result.json").exists()


def no_faults():
    """A run whose repetition would fail again is not repeated; a run that cannot continue is refused."""
    text = run("diverged", *arguments(steps=58, ranks=1, restarts=3), "--set", "train.lr=1e30", code=1)
    assert result_of("diverged")["status"] == "failed" and len(journal("diverged", "started")) == 1, text
    text = run("late", *arguments(steps=1000000, ranks=1, restarts=3), "--set", "timeout=4", code=1)
    assert result_of("late")["status"] == "timeout" and len(journal("late", "started")) == 1, text
    text = run("refused", *arguments(restarts=3), "--set", "save.every=0", code=2)
    assert "max_restarts = 3 needs a run that saves its state" in text and "save = { every = N }" in text, text
    assert "--max-restarts" in run("refused", "--max-restarts", "-1", code=2)
    text = run("refused", "--max-restarts", "2", "--interleave", "on", code=2)
    assert "excludes interleaved runs" in text, text
    text = run("refused", *arguments(restarts=-1), code=1)
    assert "tuned.lua:" in text and "max_restarts" in text, text
    said = run("refused", "--max-restarts", "1", "--set", "save.every=0", "--dry-run", code=2)
    assert "max_restarts = 1 needs" in said, said


def by_torchrun():
    """A process of the job is lost with its rank: torchrun restarts all processes, and --resume continues."""
    if not TORCHRUN.exists():
        return print(f"there is no {TORCHRUN}")
    run("two", *arguments(steps=158, ranks=2))
    command = [TORCHRUN, "--no-python", "--nproc-per-node=2", "--max-restarts=2", "--monitor-interval=0.2",
               "--master-port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
               OPTRUSH, "run", "tuned.lua", "--label", "torchrun", "--resume",
               *arguments(steps=158, ranks=2, restarts=1)]
    process = subprocess.Popen(command, cwd=work, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    wait_for(lambda: steps_made("torchrun") > EVERY + 3, process)
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_text().split("\0")
            if "--label" in words and "torchrun" in words and pathlib.Path(words[0]).name == "optrush" and (
                    "\0RANK=1\0" in "\0" + (entry / "environ").read_text()):
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 0, text
    assert len(journal("torchrun", "started")) == 2 and f"{RUN} continues from its state before step" in text, text
    check_equal(result_of("torchrun"), result_of("two"))


def of_job(mark, program):
    """{rank: process id} of the processes in a launcher's job that run this program."""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_text().split("\0")
            variables = dict(line.split("=", 1) for line in (entry / "environ").read_text().split("\0") if "=" in line)
            if variables.get("RESTARTS_TEST") == mark and pathlib.Path(words[0]).name == program and words[1] == "run":
                found[int(variables["OMPI_COMM_WORLD_RANK"])] = int(entry.name)
        except (OSError, IndexError, KeyError):
            continue
    return found


def by_mpirun():
    """Under Open MPI killed workers restart within the processes of the job.

    If one of these processes is lost, mpirun ends the job, and a new start with --resume continues it.
    """
    if shutil.which("mpirun") is None:
        return print("there is no mpirun: install openmpi-bin")
    if not folder_of("two").exists():
        run("two", *arguments(steps=158, ranks=2))
    command = ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", OPTRUSH, "run", "tuned.lua",
               "--label", "mpirun", *arguments(steps=158, ranks=2, restarts=2)]

    def job(*more):
        environment = {**os.environ, "RESTARTS_TEST": str(work), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return subprocess.Popen([*command, *more], cwd=work, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, env=environment)

    process = job()
    for kill, rank in enumerate((1, 0)):
        wait_for(lambda: len(journal("mpirun", "started")) == kill + 1
                 and steps_made("mpirun") > EVERY * (kill + 1) + 3, process)
        os.kill(of_job(str(work), "optrush-worker")[rank], signal.SIGKILL)
        wait_for(lambda: len(journal("mpirun", "restarted")) == kill + 1, process)
    wait_for(lambda: len(journal("mpirun", "started")) == 3 and steps_made("mpirun") > 3 * EVERY + 3, process)
    os.kill(of_job(str(work), "optrush")[1], signal.SIGKILL)
    text, _ = process.communicate(timeout=120)
    assert process.returncode != 0 and [fault["rank"] for fault in journal("mpirun", "restarted")] == [1, 0], text
    process = job("--resume")
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 0 and f"{RUN} continues from its state before step" in text, text
    check_equal(result_of("mpirun"), result_of("two"))
    assert not of_job(str(work), "optrush-worker") and not of_job(str(work), "optrush"), "no process stays"


def stopped_on(label, process):
    """Stops the run in the middle by SIGTERM, so that it saves its state. Returns the number of its steps."""
    wait_for(lambda: steps_made(label) > EVERY + 3, process)
    process.send_signal(signal.SIGTERM)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 143, text
    return steps_made(label)


def shared_by(ranks, accumulation=1, steps=158):
    """Settings for a number of ranks, which a script may also compute from rush.ranks()."""
    return [word for name, value in (("world_size", ranks), ("accumulation", accumulation), ("steps", steps))
            for word in ("--set", f"train.{name}={value}")]


def resume_on_fewer_ranks(label, kept, before, strategy, ranks, accumulation):
    """Resumes on fewer ranks, and runs to the end."""
    text = run(label, *arguments(strategy=strategy), *shared_by(ranks, accumulation), "--resume")
    instead = f"{ranks} rank{'s' if ranks > 1 else ''} instead of {before}"
    assert f"{RUN} continues from its state before step {kept} on {instead}" in text, text
    here, whole = result_of(label), result_of("four")
    assert [step["tokens"] for step in here["steps"]] == [step["tokens"] for step in whole["steps"]]
    for mine, other in zip(here["steps"], whole["steps"]):
        assert abs(mine["loss"] - other["loss"]) < 1e-4, (mine, other)
    assert not any(step["timed"] for step in here["steps"][:kept])
    assert any(step["timed"] for step in here["steps"][kept:])
    note = f"from step {kept} on it trained on {instead}, with the same global batch"
    assert any(note in each for each in here["notes"]), here["notes"]


def on_fewer_ranks():
    """Training with the same global batch continues from a state of four ranks on two ranks, and then on one."""
    run("four", *arguments(strategy="ddp"), *shared_by(1, 4))
    for strategy in ("fsdp", "ddp"):
        kept = stopped_on(strategy, start(strategy, *arguments(strategy=strategy), *shared_by(4)))
        if strategy == "fsdp":
            resume_on_fewer_ranks(strategy, kept, 4, strategy, 2, 2)
            continue
        process = start(strategy, *arguments(strategy=strategy), *shared_by(2, 2), "--resume")
        wait_for(lambda: steps_made("ddp") > kept + 3, process)
        process.send_signal(signal.SIGTERM)
        text, _ = process.communicate(timeout=60)
        assert process.returncode == 143 and f"before step {kept} on 2 ranks instead of 4" in text, text
        resume_on_fewer_ranks(strategy, steps_made(strategy), 2, strategy, 1, 4)
    # Another training: the run begins with its first step and gives the reason.
    for first, then, why in ((shared_by(4), shared_by(2), "the global batch from 4 to 2 sequences"),
                             (shared_by(4), shared_by(2, 2, 98), "train.steps from 158 to 98")):
        shutil.rmtree(work / "reports/tuned/other", ignore_errors=True)
        kept = stopped_on("other", start("other", *arguments(strategy="ddp"), *first))
        text = run("other", *arguments(strategy="ddp"), *then, "--resume")
        assert f"does not continue from its state before step {kept}, because this has changed: {why}" in text, text
        assert not any("instead of" in note for note in result_of("other")["notes"])


def of_launcher(label, program):
    """{rank: process id} of a launcher's processes for a report."""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_text().split("\0")
            variables = dict(line.split("=", 1) for line in (entry / "environ").read_text().split("\0") if "=" in line)
            if variables.get("RESTARTS_TEST") == f"{work}/{label}" and pathlib.Path(words[0]).name == program:
                found[int(variables.get("RANK", variables.get("OMPI_COMM_WORLD_RANK")))] = int(entry.name)
        except (OSError, IndexError, TypeError):
            continue
    return found


def a_lost_node():
    """A launcher's job loses a worker, continues on fewer ranks, is stopped, and continues on more ranks."""
    if not folder_of("four").exists():
        run("four", *arguments(strategy="ddp"), *shared_by(1, 4))
    launchers = {"mpirun": ["mpirun", "--oversubscribe", "--bind-to", "none", "-n"],
                 "torchrun": [TORCHRUN, "--no-python", "--master-port=0", "--rdzv-backend=c10d",
                              "--rdzv-endpoint=localhost:0", "--nproc-per-node"]}
    for label, command in launchers.items():
        if shutil.which(command[0]) is None:
            print(f"there is no {command[0]}")
            continue

        def job(ranks, *more, label=label, command=command):
            environment = {**os.environ, "RESTARTS_TEST": f"{work}/{label}", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            return subprocess.Popen([*command, str(ranks), OPTRUSH, "run", "tuned.lua", "--label", f"node-{label}",
                                     *arguments(strategy="ddp"), *shared_by(ranks, 4 // ranks), *more], cwd=work,
                                    text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)

        report = f"node-{label}"
        process = job(4)
        wait_for(lambda: steps_made(report) > EVERY + 3, process)
        os.kill(of_launcher(label, "optrush-worker")[3], signal.SIGKILL)
        text, _ = process.communicate(timeout=120)
        assert process.returncode != 0 and result_of(report)["cause"] == "lost", text
        head = folder_of(report) / "state/state.json"
        kept = json.loads(head.read_text())["step"]
        process = job(2, "--resume")
        wait_for(lambda: journal(report, "started")[1:] and steps_made(report) > kept + EVERY + 3, process)
        os.kill(of_launcher(label, "optrush")[0], signal.SIGTERM)
        text, _ = process.communicate(timeout=120)
        assert f"{RUN} continues from its state before step {kept} on 2 ranks instead of 4" in text, text
        kept = json.loads(head.read_text())["step"]
        process = job(4, "--resume")
        text, _ = process.communicate(timeout=120)
        assert f"{RUN} continues from its state before step {kept} on 4 ranks instead of 2" in text, text
        here, whole = result_of(report), result_of("four")
        assert here["status"] == "ok" and len(here["steps"]) == len(whole["steps"]) == 160, here["reason"]
        for mine, other in zip(here["steps"], whole["steps"]):
            assert mine["tokens"] == other["tokens"] and abs(mine["loss"] - other["loss"]) < 1e-4, (mine, other)
        assert not (work / "reports/tuned" / report / "replaced").exists()
        # Rank 0 alone keeps the steps.
        state = folder_of(report) / "state/step-00000160"
        assert '"steps"' in (state / "rank-00000.json").read_text()
        assert '"record"' not in (state / "rank-00003.json").read_text()
        ends = [json.loads((folder_of(report) / f"ranks/{rank}/result.json").read_text()) for rank in range(4)]
        assert [len(end.get("steps", [])) for end in ends] == [160, 0, 0, 0], "only rank 0 has the steps"


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    (work / "tuned.lua").write_text(SCRIPT)
    (work / "pairs.jsonl").write_text("".join(
        json.dumps({"prompt": f"What is {i % 31} and {i % 17}?", "completion": f" It is {i % 31 + i % 17}."}) + "\n"
        for i in range(4000)))
    for case in (no_faults, one_process, stopped_by_a_signal, a_rank_that_hangs, on_fewer_ranks, a_lost_node,
                 by_torchrun, by_mpirun, killed_repeatedly):
        if sys.argv[1:] and case.__name__ not in sys.argv[1:]:
            continue
        began = time.monotonic()
        case()
        print(f"{case.__name__} passed after {time.monotonic() - began:.0f} s", flush=True)
