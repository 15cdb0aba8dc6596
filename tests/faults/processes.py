"""Processes that carry the campaign's mark in their environment."""

import os
import pathlib
import signal
import time

from scenes import MARK


def marked(mark):
    """{process id: command line} of each marked process that is alive; zombies are left out."""
    wanted = f"{MARK}={mark}\0".encode()
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if wanted not in (process / "environ").read_bytes() + b"\0":
                continue
            state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
            words = (process / "cmdline").read_bytes().split(b"\0")
        except (OSError, IndexError):
            continue
        if state not in "ZX":
            found[int(process.name)] = [word.decode(errors="replace") for word in words if word]
    return found


def workers(mark, training=False):
    """Processes that train or plan; with `training`, only those that train."""
    return [pid for pid, words in marked(mark).items()
            if len(words) > 1 and (words[0].endswith("optrush-worker") or "program.py" in words)
            and (not training or words[1] == "run" or "program.py" in words)]


def left(mark, patience=5.0):
    """Marked processes that are alive after `patience` seconds; it kills them."""
    end = time.monotonic() + patience
    while (alive := marked(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    for pid in alive:
        send(pid, signal.SIGKILL)
    return [" ".join(words)[:200] for words in alive.values()]


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False
