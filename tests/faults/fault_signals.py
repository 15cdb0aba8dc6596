"""Signals to the controller, to workers and to ranks, at random moments of an experiment."""

import signal
import time

import processes

CONDUCTOR = {"controller SIGKILL": signal.SIGKILL, "controller SIGTERM": signal.SIGTERM,
             "controller SIGINT": signal.SIGINT, "controller SIGHUP": signal.SIGHUP}
WORKER = {"worker SIGKILL": signal.SIGKILL, "worker SIGTERM": signal.SIGTERM, "worker SIGSEGV": signal.SIGSEGV}
PAUSE = ("controller SIGSTOP", "worker SIGSTOP", "everything SIGSTOP")
KINDS = (*CONDUCTOR, *WORKER, *PAUSE)


def wait_for_worker(going, mark):
    """A worker that trains or plans, chosen by the seed; None if the experiment ends first."""
    while going.process.poll() is None:
        if alive := processes.workers(mark):
            return going.random.choice(sorted(alive))
        time.sleep(0.01)
    return None


def apply(kind, going):
    """True if the fault struck. Records in `going` what the fault may break."""
    process, mark = going.process, going.mark
    if kind in CONDUCTOR:
        if process.poll() is not None:
            return False
        processes.send(process.pid, CONDUCTOR[kind])
        going.ends = True
        return True
    if kind in WORKER:
        pid = wait_for_worker(going, mark)
        if pid is None or not processes.send(pid, WORKER[kind]):
            return False
        going.hurt = True
        return True
    if kind == "controller SIGSTOP":
        pids = [process.pid]
    elif kind == "worker SIGSTOP":
        pid = wait_for_worker(going, mark)
        pids = [] if pid is None else [pid]
    else:
        pids = list(processes.marked(mark))
    if process.poll() is not None:
        return False
    stopped = [pid for pid in pids if processes.send(pid, signal.SIGSTOP)]
    time.sleep(going.random.uniform(0.1, 1.0))
    for pid in stopped:
        processes.send(pid, signal.SIGCONT)
    return bool(stopped)
