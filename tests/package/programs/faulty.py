"""A program that reports its steps itself, with one fault."""
import json
import os
import signal
import socket
import subprocess
import sys
import time

METRICS = os.environ["OPTRUSH_METRICS"]


def write(text):
    with open(METRICS, "a") as metrics:
        metrics.write(text)


def line(step, **fields):
    return json.dumps({"event": "step", "step": step, "timed": step >= 2, "tokens": 32, "seconds": 0.01,
                       "loss": 3 - 0.1 * step, **fields}) + "\n"


def steps(numbers=range(8), **fields):
    write("".join(line(number, **fields) for number in numbers))


def result(text):
    steps()
    with open(os.environ["OPTRUSH_OUT"], "w") as out:
        out.write(text)


def turn(text):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ["OPTRUSH_TURNS"])
    connection.sendall(text.encode())
    time.sleep(1000)


def deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    steps()
    time.sleep(1000)


def dies():
    steps(range(4))
    os.kill(os.getpid(), signal.SIGSEGV)


def leaves_a_process():
    steps()
    left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with open("left.pid", "w") as file:
        file.write(str(left.pid))


def prints_garbage():
    steps()
    os.write(1, bytes(range(256)) * 1000)


def raises():
    steps(range(4))
    raise ValueError("my own error")


def garbage():
    steps(range(4))
    write("step 4 of 8\n")
    time.sleep(1000)


ready = '{"type": "ready", "rank": 0, "ranks": 1, "seconds": 0.01}\n'
FAULTS = {
    "no newline": lambda: write("".join(map(line, range(8))).rstrip()), "prints garbage": prints_garbage,
    "leaves a process": leaves_a_process,
    "mute": lambda: time.sleep(1000), "deaf": deaf, "dies": dies, "raises": raises,
    "garbage": garbage, "bytes": lambda: write("\x00\x01\n"),
    "half a line": lambda: (steps(range(7)), write(line(7)[:40])),
    "text": lambda: steps(seconds="fast"), "infinite": lambda: steps(seconds=float("inf")),
    "for ever": lambda: steps(seconds=1e300), "backwards": lambda: steps(seconds=-1),
    "at once": lambda: steps(seconds=0), "nothing": lambda: steps(tokens=0), "half": lambda: steps(tokens=0.5),
    "misspelled": lambda: steps(los=1), "list": lambda: steps(loss=[1]),
    "from 1": lambda: steps(range(1, 9)), "twice": lambda: (steps(), steps()),
    "leaves out": lambda: steps(range(0, 80, 10)),
    "warm-up only": lambda: steps(timed=False),
    "half a result": lambda: result("{"), "a result without a status": lambda: result('{"schema_version": 1}'),
    "talks": lambda: turn("hello\n"), "half a turn": lambda: turn(ready[:20]), "rank 5": lambda: turn(
        ready.replace('"rank": 0', '"rank": 5')), "goes on": lambda: turn(ready + ready),
}
FAULTS[sys.argv[1]]()
