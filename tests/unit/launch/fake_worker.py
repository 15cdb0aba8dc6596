#!/usr/bin/env -S python3 -I -S
"""Stands in for optrush-worker. The name of a rung says how its runs end: its first word is a key of ENDS or PLANS.

A round can be given: "crash@2" crashes in the second round only. Each start is a line of $FAKE_WORKER_STARTS.
Where runs are interleaved it follows the protocol, and notes in $FAKE_WORKER_TURNS when it has the turn and for how many steps. A key of
TURNS says what goes wrong in its second turn. $FAKE_MEMORY is the free memory of plans that predict a peak: those of all
rungs but "unpredicted". The name of the base is fixed: $FAKE_BASE is the word for its runs.
"""
import json
import os
import signal
import socket
import sys
import time


def write(path, value):
    with open(path + ".tmp", "w") as file:
        json.dump(value, file)
    os.replace(path + ".tmp", path)


def result(spec, **changes):
    train = spec["train"]
    steps = [
        {
            "step": i,
            "timed": i >= train["warmup"],
            "loss": 5 - 0.1 * i,
            "grad_norm": 1.0,
            "tokens": 128,
            "seconds": 0.01,
            "phases": {"forward": 0.005},
        }
        for i in range(train["warmup"] + train["steps"])
    ]
    ok = {"schema_version": 1, "status": "ok", "reason": "", "steps": steps, "tokens_per_second": 12800.0}
    seconds = float(os.environ.get("FAKE_STEP_SECONDS", "0.01"))
    ok.update({"step_seconds": seconds, "device": {"type": "cpu", "name": "fake"}, "plugins": [], **changes})
    if "FAKE_MEMORY" in os.environ:
        ok["memory"] = {"peak_allocated": 1e8, "process": 1e9}
    return ok


def end_by(number):
    sys.stdout.flush()
    os.kill(os.getpid(), number)


def hang(spec, out):
    # A child that ignores SIGTERM: only the end of the whole group ends it.
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
    write(out + "/child.json", child)
    time.sleep(1000)


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


def out_of_memory(spec):
    return result(spec, status="oom", reason="too large", requested_bytes=7, steps=[])


def noisy(spec, out, speed=1.0):
    write(out + "/result.json", result(spec, tokens_per_second=speed * 12800.0 * (1 + 0.03 * (-1) ** spec["round"])))


def note_turn(*words):
    if "FAKE_WORKER_TURNS" not in os.environ:
        return
    with open(os.environ["FAKE_WORKER_TURNS"], "a") as file:
        print(*words, file=file)


class Interleaving:
    """The other end of the controller's socket."""

    def __init__(self, name, rank=0, ranks=1):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(os.environ["OPTRUSH_TURNS"])
        self.name, self.place, self.stream, self.turn = name, {"rank": rank, "ranks": ranks}, connection.makefile("rw"), 0
        note_turn(name, "starts")

    def say(self, **message):
        print(json.dumps(message), file=self.stream, flush=True)

    def next(self):
        note_turn(self.name, "waits")
        seconds = float(os.environ.get("FAKE_STEP_SECONDS", "1"))
        self.say(type="done" if self.turn else "ready", seconds=seconds, **({} if self.turn else {**self.place, "ends": True}))
        message = json.loads(self.stream.readline())
        if message["type"] == "end":
            note_turn(self.name, "ends")
            return 0
        steps = message["steps"]
        self.turn += 1
        note_turn(self.name, "has", steps)
        return steps


TURNS = {
    "turncrash": lambda turns: end_by(signal.SIGSEGV),
    "turnoom": lambda turns: (write(turns.out + "/result.json", out_of_memory(turns.spec)), sys.exit(0)),
    "turnhang": lambda turns: time.sleep(1000),
    "turnslow": lambda turns: time.sleep(0.4),
    "turnjunk": lambda turns: (print("after you", file=turns.stream, flush=True), time.sleep(1000)),
    "turntwice": lambda turns: (turns.say(type="done", seconds=1), turns.say(type="done", seconds=1), time.sleep(1000)),
    "turnclose": lambda turns: turns.stream.close(),
    "turnstop": lambda turns: turns.turn == 5 and os.kill(os.getppid(), signal.SIGINT),
    "turnsignal": lambda turns: (os.kill(os.getppid(), signal.SIGINT), time.sleep(1000)),
}


def take_turns(turns, steps, word):
    """How many steps were made: fewer where the controller ends the run."""
    made = 0
    while made < steps:
        turn = turns.next()
        if turn == 0:
            break
        made = min(steps, made + turn)
        if turns.turn >= 2 and word in TURNS:
            TURNS[word](turns)
    return made


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
    "failed": lambda spec, out: write(out + "/result.json", result(spec, status="failed", reason="no such layer", steps=[])),
    "skip": lambda spec, out: write(out + "/result.json", result(spec, status="skipped", reason="no GPU", steps=[])),
    "oom": lambda spec, out: write(out + "/result.json", out_of_memory(spec)),
}


def wait_for(path):
    for _ in range(2000):
        if os.path.exists(path):
            return
        time.sleep(0.005)


class Rank:
    """One of several processes of a run. The word "killed:2" makes rank 2 end so, and the others as they then would."""

    def __init__(self, spec, options):
        self.spec, self.out = spec, options["--out"]
        self.rank, self.size = int(options["--rank"]), spec["train"]["world_size"]
        self.options = options
        self.shared = os.environ.get("FAKE_RANKS_FOLDER", os.path.dirname(self.out))
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY")
        if "FAKE_PID_FILE" in os.environ:
            write(os.environ["FAKE_PID_FILE"], os.getpid())
        write(self.out + "/started.json", {"options": options, "environment": {n: os.environ.get(n) for n in names}})

        self.tell(f"here-{self.rank}")

    def steps(self, count):
        with open(self.out + "/metrics.jsonl", "a") as file:
            file.write('{"event":"phase","name":"warmup"}\n')
            for i in range(count):
                file.write('{"event":"step","step":%d,"loss":5.0}\n' % i)

    def tell(self, word):
        write(self.shared + "/" + word, self.rank)

    def hear(self, word):
        wait_for(self.shared + "/" + word)

    def end(self, status="ok", **changes):
        if self.rank > 0 and status == "ok":
            changes.update(steps=[], tokens_per_second=None)
        write(self.out + "/result.json", result(self.spec, status=status, **({"steps": []} if status != "ok" else {}), **changes))

    def all_are_here(self):
        """On a busy machine a rank may be ended before it has said anything."""
        for rank in range(self.size):
            self.hear(f"here-{rank}")

    def blame_peer(self):
        self.end("failed", reason="a connection was closed by another rank", cause="peer")


def rank_killed(rank, bad):
    rank.steps(4)
    if bad:
        rank.all_are_here()
        print("the last words", flush=True)
        rank.tell("gone")
        end_by(signal.SIGKILL)
    rank.hear("gone")
    rank.blame_peer()


def rank_fails_after_others(rank, bad):
    if bad:
        rank.hear("blamed")
        time.sleep(0.2)
        print("where it was", flush=True)
        return rank.end("oom", reason="too large", requested_bytes=7, cause="own")
    rank.blame_peer()
    rank.tell("blamed")


def rank_hangs(rank, bad):
    rank.steps(4 if bad else 5)
    if bad:
        return hang(rank.spec, rank.out)
    wait_for(os.path.join(os.path.dirname(rank.out), "1", "child.json"))
    rank.end("timeout", reason="all_reduce of group dp: no answer within 60 s", cause="timeout")


def rank_is_aborted(rank, bad):
    """As NCCL's watchdog ends those that wait for a rank that hangs."""
    rank.steps(4 if bad else 5)
    if bad:
        return hang(rank.spec, rank.out)
    wait_for(os.path.join(os.path.dirname(rank.out), "1", "child.json"))
    print("[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE)")
    print("frame\n" * 2000, flush=True)
    end_by(signal.SIGABRT)


def rank_comes_late(rank, bad):
    if bad:
        time.sleep(0.5)
        rank.tell("here")
    rank.hear("here")
    rank.end()


def rank_fails_at_last(rank, bad):
    if not bad:
        rank.end()
        return rank.tell("done")
    rank.hear("done")
    time.sleep(0.2)
    sys.exit(3)


def all_wait(rank, bad):
    time.sleep(1000)


def rank_talks(rank, bad):
    rank.steps(2)
    print("said", flush=True)
    time.sleep(1000)


def rank_is_ended(rank, bad):
    """As by a launcher that signals every process of a job: before any controller is."""
    rank.all_are_here()
    if bad:
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(1000)


def rank_skips(rank, bad):
    rank.end("skipped", reason="no GPU")


def port_is_taken(rank, bad):
    with open(os.environ["FAKE_WORKER_STARTS"]) as file:
        starts = sum(line.endswith("porttaken-r1/0\n") for line in file)
    if rank.rank == 0 and starts == 1:
        return rank.end("failed", reason="cannot serve the store: address already in use", cause="own")
    rank.end()


RANK_ENDS = {
    "killed": rank_killed,
    "oom": rank_fails_after_others,
    "hang": rank_hangs,
    "watchdog": rank_is_aborted,
    "late": rank_comes_late,
    "atlast": rank_fails_at_last,
    "slow": all_wait,
    "talks": rank_talks,
    "ended": rank_is_ended,
    "skip": rank_skips,
    "porttaken": port_is_taken,
}


def run_rank(spec, options):
    word, _, bad = spec["rung"].split(" ")[0].partition(":")
    rank = Rank(spec, options)
    if "OPTRUSH_TURNS" in os.environ:
        turns = Interleaving(f"{spec['rung']}/{rank.rank}", rank.rank, rank.size)
        spec["train"]["steps"] = take_turns(turns, spec["train"]["steps"], word)
    if word in RANK_ENDS and spec["purpose"] == "measure":
        return RANK_ENDS[word](rank, rank.rank == int(bad or 0))
    rank.end()


def plan_while_there(out):
    """As of a checkpoint that may be gone."""
    if not os.path.exists(os.environ["FAKE_CHECKPOINT"]):
        fail_to_plan(out)


def no_plan(out, status, reason):
    write(out, {"schema_version": 1, "status": status, "reason": reason})
    sys.exit(1)


def fail_to_plan(out):
    no_plan(out, "failed", "x.lua:3: unknown option 'rnk'\n  hint: did you mean 'rank'?")


def skip_plan(out):
    no_plan(out, "skipped", "plugin 'tf32' in apply: no GPU")


def leave_a_child(out):
    """In the group of the plan."""
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    write(out + ".child", child)


def say_and_end(out):
    print("the last words of a plan", flush=True)
    sys.exit(3)


PLANS = {
    "planskip": skip_plan,
    "unplanned": fail_to_plan,
    "checkpoint": plan_while_there,
    "plancrash": lambda out: end_by(signal.SIGSEGV),
    "planhang": lambda out: time.sleep(1000),
    "plankilled": lambda out: end_by(signal.SIGKILL),
    "planleaves": leave_a_child,
    "planmemory": lambda out: bytearray(512 << 20),
    "plannothing": say_and_end,
    "planvariable": lambda out: print(os.environ["OPTRUSH_OF_PLAN"], flush=True),
    "planjunk": lambda out: write(out, ["no", "plan"]),
}


def plan(spec, out):
    PLANS.get(spec["rung"].split(" ")[0], lambda out: None)(out)
    if spec["rung"].split(" ")[0] == "planjunk":
        return
    problem = dict(spec["train"])
    problem["global_batch"] = problem["micro_batch"] * problem["accumulation"] * problem["world_size"]
    made = {"schema_version": 1, "problem": problem, "model": spec["model"], "plugins": [], "slots": [], "notes": []}
    if "FAKE_MEMORY" in os.environ and spec["rung"].split(" ")[0] != "unpredicted":
        made["memory"] = {"peak_bytes": 1e8, "available_bytes": float(os.environ["FAKE_MEMORY"]), "device": "cpu"}
    write(out, made)


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


def fork_server():
    """As the worker's: core/worker/fork_server_command.cpp. Each start is a line of $FAKE_FORK_SERVERS, of a server for runs a line of
    $FAKE_RUN_SERVERS. $FAKE_FORK_SERVER says what goes wrong."""
    fault, host, channel = os.environ.get("FAKE_FORK_SERVER", ""), os.getppid(), socket.socket(fileno=0)
    starts = "FAKE_FORK_SERVERS" if "--plans" in sys.argv else "FAKE_RUN_SERVERS"
    if starts in os.environ:
        with open(os.environ[starts], "a") as file:
            print(os.getpid(), file=file)
    if fault == "hang":
        time.sleep(1000)
    if fault == "exit":
        sys.exit(3)
    for line in channel.makefile("r"):
        request = json.loads(line)
        if fault == "threads":
            channel.sendall(b'{"refused": "it has 2 threads"}\n')
            continue
        if fault == "junk":
            channel.sendall(b"pid 4711\n")
            continue
        number, go = os.pipe(), os.pipe()
        between = os.fork()
        if between == 0:
            child = os.fork()
            if child == 0:
                return begin(request, host, go, channel)
            os.write(number[1], b"%d" % child)
            os._exit(0)
        os.close(number[1])
        child = int(os.read(number[0], 100))
        os.waitpid(between, 0)
        if fault == "untold":  # it ends before the new process may begin
            channel.sendall(b'{"pid": %d}\n' % child)
            end_by(signal.SIGKILL)
        if fault == "silent":
            time.sleep(1000)
        channel.sendall(b'{"pid": %d}\n' % child)
        os.write(go[1], b"g")
        channel.sendall(b'{"begun": true}\n')
        for end in (number[0], *go):
            os.close(end)
        if fault == "once":
            end_by(signal.SIGKILL)


def begin(request, host, go, channel):
    os.setpgid(0, 0)
    os.close(go[1])
    told = os.read(go[0], 1)
    ctypes = __import__("ctypes")
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if told != b"g" or os.getppid() != host:
        os._exit(125)
    channel.detach()
    log = os.open(request["log"], os.O_WRONLY | os.O_APPEND)
    for file, place in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
        os.dup2(file, place)
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]
    main()


def name_of_run(options):
    """The run's folder, and its rank where it has one."""
    parts = os.path.dirname(options["--spec"]) if "--rank" in options else options["--out"]
    return os.path.basename(parts) + ("/" + options["--rank"] if "--rank" in options else "")


def main():
    what, arguments = sys.argv[1], sys.argv[2:]
    options = dict(zip(arguments[::2], arguments[1::2]))
    if what == "doctor":
        threads = int(os.environ.get("FAKE_THREADS", "2"))
        write(options["--json"], {"cpu": {"name": os.environ.get("FAKE_CPU", "fake")}, "gpus": [], "threads": threads})
        return
    if what == "fork-server":
        return fork_server()
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
