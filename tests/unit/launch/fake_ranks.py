"""The fake worker as one of several ranks. The word "killed:2" is the fault of rank 2, and its peers react to it."""
import os
import signal
import sys
import time

from fake_results import end_by, hang, result, write
from fake_turns import Interleaving, take_turns


def wait_for(path):
    for _ in range(2000):
        if os.path.exists(path):
            return
        time.sleep(0.005)


class Rank:
    """One of several processes of a run."""

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
        if status != "ok":
            changes["steps"] = []
        write(self.out + "/result.json", result(self.spec, status=status, **changes))

    def all_are_here(self):
        """Waits for all ranks, because on a busy machine a rank may be killed before it has started."""
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
    """NCCL's watchdog aborts the ranks that wait for a rank that hangs."""
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
    """A launcher that signals every process of a job ends workers before it reaches the controllers."""
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
