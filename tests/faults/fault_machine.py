"""Faults of the machine: a full disk, no memory, a clock that jumps, read-only folders, a second controller."""

import contextlib
import os
import pathlib
import resource
import shutil
import subprocess
import time

import processes
import scenes

KINDS = ("disk full", "disk full, then space", "no memory", "clock jumps", "read-only folder", "two controllers",
         "SIGCHLD ignored")
CLOCK = pathlib.Path(__file__).with_name("clock_jumps.c")


def clock_library(folder):
    """The library, built once; None without a compiler."""
    library = pathlib.Path(folder) / "clock_jumps.so"
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if not library.exists() and compiler:
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, CLOCK, "-ldl"], check=True)
    return library if library.exists() else None


def filled(folder, left):
    """Writes a file that leaves `left` bytes free on this file system."""
    ballast = folder / "ballast"
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    with open(ballast, "wb") as out, contextlib.suppress(OSError):
        os.posix_fallocate(out.fileno(), 0, max(4096, free - left))
    return ballast


def limit_of(size):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    return limit


def ignore_children():
    import signal
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


@contextlib.contextmanager
def read_only(folder):
    """Makes the folder read-only by a mount, because permissions do not bind root."""
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
    try:
        yield
    finally:
        while subprocess.run(["umount", folder], capture_output=True).returncode != 0:
            time.sleep(0.1)


def obstacle(kind, campaign):
    """The reason why this machine cannot have this kind; "" if it can."""
    if kind.startswith("disk full") or kind == "read-only folder":
        return "" if campaign.private else "needs a private mount namespace (unshare --mount)"
    if kind == "clock jumps":
        return "" if clock_library(campaign.folder) else "needs a C compiler"
    return ""


def apply(kind, going):
    """Starts the controller under the fault, or injects the fault into the running controller."""
    scene, mark, random = going.scene, going.mark, going.random
    if kind.startswith("disk full"):
        if going.process.poll() is not None:
            return False
        ballast = filled(scene.folder, random.choice([0, 0, 4096, 28 << 10, 100 << 10]))
        try:
            if kind == "disk full":
                going.wait()
            else:
                time.sleep(random.uniform(0.2, 2.0))
        finally:
            ballast.unlink()
        going.hurt = True
        return True
    going.stop()
    if kind == "no memory":
        going.begin(preexec_fn=limit_of(int(random.choice([40e6, 80e6, 200e6, 400e6, 800e6, 1.5e9]))))
        going.hurt = True
        going.wait()
    elif kind == "clock jumps":
        jumps = random.choice(["86400", "-86400", "1e9", "-1e9", "random"])
        going.begin(environment={"LD_PRELOAD": str(clock_library(going.campaign.folder)), "FAULT_CLOCK": jumps})
        going.wait()
    elif kind == "read-only folder":
        going.hurt = True
        what = random.choice([scene.report, scene.report / "runs", scene.folder / "reports"])
        what.mkdir(parents=True, exist_ok=True)
        with read_only(what):
            going.begin()
            going.wait()
            processes.left(mark)
    elif kind == "two controllers":
        going.begin()
        second = scenes.Ended(scenes.start(scene.command(), mark))
        going.second = second
    else:
        going.begin(preexec_fn=ignore_children)
        going.wait()
    return True
