"""Injects faults into real experiments and checks the invariants after each fault.

    campaign.py LOG [--faults N] [--seed S] [--only FAULT] [--minutes M] [--short]
    campaign.py LOG --tell

Each fault is a line of LOG (JSON). A campaign that was stopped continues where LOG ends. A chain is up to five faults
that hit one experiment in turn; `--only` repeats the chain of one fault. `--short` injects each kind at least once, as
the tests do.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import orders
import table

PRIVATE = "OPTRUSH_FAULTS_PRIVATE"


def enter_namespace():
    """Enters a private mount namespace. Without the right to have one, the kinds that need it are skipped."""
    if PRIVATE in os.environ:
        return
    for flags in (["--mount"], ["--mount", "--user", "--map-root-user"]):
        command = ["unshare", *flags, "--propagation", "private"]
        if shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True).returncode == 0:
            os.execvpe("unshare", [*command, sys.executable, *sys.argv], dict(os.environ, **{PRIVATE: "1"}))


def mounted(folder):
    """Mounts a small file system, which can become full."""
    if PRIVATE not in os.environ:
        return False
    mount = ["mount", "-t", "tmpfs", "-o", "size=300m", "tmpfs", folder]
    return subprocess.run(mount, capture_output=True).returncode == 0


def read(log):
    path = pathlib.Path(log)
    lines = path.read_text().splitlines() if path.exists() else []
    faults = []
    for line in lines:
        try:
            faults.append(json.loads(line))
        except ValueError:
            continue  # a kill of the campaign cut this line off
    return faults


class Campaign:
    def __init__(self, folder, seed, private):
        self.folder, self.seed, self.private = pathlib.Path(folder), seed, private
        self.references = {}

    def random(self, chain):
        return random.Random(f"{self.seed}/{chain}")


def run(arguments, folder):
    campaign = Campaign(folder, arguments.seed, mounted(folder))
    plan = orders.short(campaign) if arguments.short else orders.endless(campaign)
    if arguments.short:
        pathlib.Path(arguments.log).unlink(missing_ok=True)  # a test starts from an empty log
    faults = [] if arguments.only is not None else read(arguments.log)
    begun = {fault["chain"] for fault in faults}
    end = time.monotonic() + 60 * arguments.minutes
    wanted = None if arguments.only is None else arguments.only // 100
    for number, chain in enumerate(plan):
        if wanted is not None and number > wanted or sum(fault["struck"] for fault in faults) >= arguments.faults:
            break
        if number in begun or wanted is not None and number != wanted:
            continue
        if time.monotonic() > end:
            break
        for fault in chain(number):
            faults.append(fault)
            with open(arguments.log, "a") as out:
                out.write(json.dumps(fault) + "\n")
            if arguments.verbose or table.failed(fault):
                print(json.dumps(fault), flush=True)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="number of a fault: its chain alone")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no chain after so long")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--tell", action="store_true", help="print the table of LOG")
    parser.add_argument("--verbose", action="store_true", help="print every fault")
    arguments = parser.parse_args()
    if arguments.tell:
        print(table.of(read(arguments.log)))
        return 0
    enter_namespace()
    with tempfile.TemporaryDirectory(prefix="optrush-faults-") as folder:
        try:
            faults = run(arguments, folder)
        finally:
            if PRIVATE in os.environ:
                subprocess.run(["umount", "-l", folder], capture_output=True)
    print(table.of(faults))
    return 1 if any(table.failed(fault) for fault in faults) else 0


if __name__ == "__main__":
    sys.exit(main())
