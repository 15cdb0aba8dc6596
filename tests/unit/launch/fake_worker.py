#!/usr/bin/env -S python3 -I -S
"""Replaces optrush-worker in tests. The first word of a rung's name is a key of ENDS or PLANS: the end of its runs.

"crash@2" crashes only in the second round. Each start adds a line to $FAKE_WORKER_STARTS. In interleaved runs it
follows the protocol, and adds its turns and their numbers of steps to $FAKE_WORKER_TURNS; a key of TURNS is a fault in
its second turn. $FAKE_MEMORY is the free memory of plans, which predict a peak except for the rung "unpredicted". The
base always has the same name, so $FAKE_BASE is the word for its runs. With $FAKE_RESERVED, plans are of a GPU with
these reserved bytes. $FAKE_PREPARE is a fault of workers that open the GPU for the next run: "fails", or "hangs" and
sends SIGINT.
"""
import json
import os
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # the option -I leaves this folder out
from fake_fork_server import fork_server
from fake_plans import plan
from fake_ranks import run_rank
from fake_results import end_by, hang, out_of_memory, result, write
from fake_turns import Interleaving, note_turn, take_turns


def wait_for_end(spec, out):
    time.sleep(1000)


def crash_after_result(spec, out):
    write(out + "/result.json", result(spec))
    end_by(signal.SIGSEGV)


def say_and_crash(spec, out):
    print("the last words", flush=True)
    with open(out + "/metrics.jsonl", "w") as file:
        file.write('{"event":"phase","name":"warmup"}\n{"event":"step","step":0,"loss":5.0}\n')
    end_by(signal.SIGSEGV)


def with_plugin(spec, out):
    import hashlib

    file = os.environ["FAKE_PLUGIN"]
    sha = hashlib.sha256(open(file, "rb").read()).hexdigest()
    plugin = {"name": "fake", "version": "1", "file": file, "sha256": sha}
    write(out + "/result.json", result(spec, plugins=[plugin]))


def junk(spec, out):
    with open(out + "/result.json", "w") as file:
        file.write('{"status": "ok", "rea')


def jitter(spec, out):
    value = result(spec)
    for step in value["steps"][1:]:
        step["loss"] *= 1 + 1e-9
    write(out + "/result.json", value)


def without_steps(spec, out, **changes):
    write(out + "/result.json", result(spec, steps=[], **changes))


def noisy(spec, out, speed=1.0):
    tokens_per_second = speed * 12800.0 * (1 + 0.03 * (-1) ** spec["round"])
    write(out + "/result.json", result(spec, tokens_per_second=tokens_per_second))


ENDS = {
    "noisy": noisy,
    "ahead": lambda spec, out: noisy(spec, out, 1.3),
    "behind": lambda spec, out: noisy(spec, out, 0.7),
    "jitter": jitter,
    "crash": say_and_crash,
    "killed": lambda spec, out: end_by(signal.SIGKILL),
    "hang": hang,
    "slow": wait_for_end,
    "junk": junk,
    "odd": lambda spec, out: write(out + "/result.json", result(spec, status="splendid")),
    "nothing": lambda spec, out: None,
    "exit3": lambda spec, out: sys.exit(3),
    "late": crash_after_result,
    "plugin": with_plugin,
    "failed": lambda spec, out: without_steps(spec, out, status="failed", reason="no such layer"),
    "skip": lambda spec, out: without_steps(spec, out, status="skipped", reason="no GPU"),
    "oom": lambda spec, out: write(out + "/result.json", out_of_memory(spec)),
}


def run(spec, out):
    word, _, only_round = spec["rung"].split(" ")[0].partition("@")
    if word == "base":
        word = os.environ.get("FAKE_BASE", word)
    if spec["purpose"] != "measure" or (only_round and int(only_round) != spec["round"] + 1):
        word = ""
    if "OPTRUSH_TURNS" in os.environ and word != "silent":
        turns = Interleaving(spec["rung"])
        turns.spec, turns.out = spec, out
        spec["train"]["steps"] = take_turns(turns, spec["train"]["steps"], word)
    ENDS.get(word, lambda spec, out: write(out + "/result.json", result(spec)))(spec, out)


def prepare(options):
    """Takes a while to open a GPU, then becomes the next run."""
    fault = os.environ.get("FAKE_PREPARE", "")
    if fault == "hangs":
        note_turn("hangs", os.getpid())
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(1000)
    time.sleep(0.3)
    if fault == "fails":
        sys.exit(1)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(options["--socket"])
    note_turn("prepared")
    connection.sendall(b"{}\n")
    line = connection.makefile("r").readline()
    if not line:
        return
    os.environ.update(json.loads(line)["environment"])
    log = os.open(options["--out"] + "/log.txt", os.O_WRONLY | os.O_APPEND)
    for place in (1, 2):
        os.dup2(log, place)
    sys.argv = [sys.argv[0], "run", "--spec", options["--spec"], "--out", options["--out"]]
    note_turn("a prepared worker runs", os.path.basename(options["--out"]))
    main()


def name_of_run(options):
    """The folder of the run, with the rank if there are several."""
    parts = os.path.dirname(options["--spec"]) if "--rank" in options else options["--out"]
    return os.path.basename(parts) + ("/" + options["--rank"] if "--rank" in options else "")


def main():
    what, arguments = sys.argv[1], sys.argv[2:]
    options = dict(zip(arguments[::2], arguments[1::2]))
    if what == "doctor":
        threads = int(os.environ.get("FAKE_THREADS", "2"))
        cpu = {"name": os.environ.get("FAKE_CPU", "fake")}
        write(options["--json"], {"cpu": cpu, "gpus": [], "threads": threads})
        return
    if what == "prepare":
        return prepare(options)
    if what == "fork-server":
        return fork_server(main)
    if what == "plan" and "FAKE_PLANS" in os.environ:
        with open(os.environ["FAKE_PLANS"], "a") as file:
            print(os.getpid(), file=file)
    with open(options["--spec"]) as file:
        spec = json.load(file)
    if what == "export":
        os.makedirs(options["--out"])
        write(options["--out"] + "/config.json", {})
    if what in ("run", "export") and "FAKE_WORKER_STARTS" in os.environ:
        with open(os.environ["FAKE_WORKER_STARTS"], "a") as file:
            file.write(name_of_run(options) + "\n")
    if "--rank" in options:
        return run_rank(spec, options)
    {"plan": plan, "run": run, "export": lambda spec, out: None}[what](spec, options["--out"])


main()
