"""The fake worker in interleaved runs: it follows the protocol, or fails as a word of its rung's name says."""
import json
import os
import signal
import socket
import sys
import time

from fake_results import end_by, out_of_memory, write


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
        self.name, self.place, self.turn = name, {"rank": rank, "ranks": ranks}, 0
        self.stream = connection.makefile("rw")
        note_turn(name, "starts")

    def say(self, **message):
        print(json.dumps(message), file=self.stream, flush=True)

    def next(self):
        note_turn(self.name, "waits")
        seconds = float(os.environ.get("FAKE_STEP_SECONDS", "1"))
        if self.turn:
            self.say(type="done", seconds=seconds)
        else:
            self.say(type="ready", seconds=seconds, **self.place, ends=True)
        message = json.loads(self.stream.readline())
        if message["type"] == "end":
            note_turn(self.name, "ends")
            return 0
        steps = message["steps"]
        self.turn += 1
        note_turn(self.name, "has", steps)
        return steps


# Faults of a run in its second turn or later.
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
    """The number of steps that were made; the controller may end the run before `steps`."""
    made = 0
    while made < steps:
        turn = turns.next()
        if turn == 0:
            break
        made = min(steps, made + turn)
        if turns.turn >= 2 and word in TURNS:
            TURNS[word](turns)
    return made
