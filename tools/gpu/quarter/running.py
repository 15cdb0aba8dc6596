"""Runs the program of a step with a time limit, and ends all processes that it started."""
import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

GRACE = 20  # seconds for a program to save its results


def processes_of(session):
    """The processes of a session. Programs may have started others in separate groups, but all are in the session of
    the step."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        if int(fields[3]) == session and fields[0] != "Z":
            yield int(entry.name)


def kill_all_of(session):
    """Kills them. Returns when none is left; a process that waits for a device may take a while."""
    until = time.monotonic() + GRACE
    while (processes := list(processes_of(session))) and time.monotonic() < until:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)


class Runner:
    """Runs one program at a time. `stop` may be called from a signal handler."""

    def __init__(self):
        self.stopped_by = 0  # the number of a signal

    def stop(self, number, _frame=None):
        self.stopped_by = self.stopped_by or number

    def run(self, command, environment, folder, seconds, stdout=""):
        """Runs a program. Returns "ok", "failed", "time limit" or "stopped", its exit code and the seconds that it
        took."""
        started = time.monotonic()
        with open(folder / "log.txt", "ab") as log, open(
            folder / (stdout or "log.txt"), "wb" if stdout else "ab"
        ) as out:
            log.write(f"$ {' '.join(map(str, command))}\n".encode())
            log.flush()
            try:
                process = subprocess.Popen(
                    [str(word) for word in command],
                    env=environment,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=log,
                    start_new_session=True,
                )
            except OSError as error:
                log.write(f"{error}\n".encode())
                return "failed", 127, 0.0
            ended = self._wait(process, started + seconds)
            if not ended:
                process.terminate()
                self._wait(process, time.monotonic() + GRACE, whatever=True)
            kill_all_of(process.pid)
            code = process.wait()
        spent = time.monotonic() - started
        if ended:
            return ("ok" if code == 0 else "failed"), code, spent
        return ("stopped" if self.stopped_by else "time limit"), code, spent

    def _wait(self, process, until, whatever=False):
        """Waits for the end of the program. Returns False at the time limit, or if the step is stopped."""
        while process.poll() is None:
            if time.monotonic() >= until or (self.stopped_by and not whatever):
                return False
            time.sleep(0.05)
        return True
