"""Runs the libFuzzer targets of tests/fuzz, each for a total number of inputs, and prints a table of the results.

  python tests/fuzz/campaign.py                       10,000,000 inputs of each target
  python tests/fuzz/campaign.py --for 3600            at most an hour; the next call continues from there
  python tests/fuzz/campaign.py --table               the table, without a run
  python tests/fuzz/campaign.py --record              adds the results to tests/fuzz/campaign.json

It builds the targets with clang into build-fuzz. Targets are interleaved, so that each has its share of the time.
campaign.json has the totals of all machines, and a campaign continues from them.
build-fuzz/campaign/NAME has the inputs that reached new code (corpus), the inputs that ended a target (findings) and
libFuzzer's output (log.txt). Fix the cause of a finding first, then move its input to tests/fuzz/corpus/NAME.
"""

import argparse
import concurrent.futures
import fcntl
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent.parent
FUZZ = SOURCE / "tests" / "fuzz"
RECORD = FUZZ / "campaign.json"
NOTHING = {"inputs": 0, "seconds": 0.0, "cpu_seconds": 0.0, "edges": 0, "turns": 0}
MOST_FINDINGS = 5  # a target with so many stops until they are fixed
LIMITS = ["-timeout=30", "-rss_limit_mb=4096"]
LENGTHS = {"report": 32768, "run_result": 16384,  # 4 KiB of such a document have little content
           "journal": 1024, "metrics": 1024}  # read line by line, several times an input
# Without entropic scheduling libFuzzer does not weigh the corpus anew after each input.
SPEED = ["-entropic=0"]
# AddressSanitizer keeps no stack of an allocation.
ASAN = "malloc_context_size=0:quarantine_size_mb=16:allocator_release_to_os_interval_ms=-1"


def build(folder, jobs):
    if not (folder / "build.ninja").exists():
        subprocess.run(["cmake", "-S", SOURCE, "-B", folder, "-G", "Ninja", "-DOPTRUSH_FUZZ=ON",
                        "-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_C_COMPILER=clang"], check=True)
    subprocess.run(["ninja", "-C", folder, f"-j{max(jobs, 2)}", "optrush-fuzz"], check=True)


class Target:
    def __init__(self, name, build_folder, recorded):
        self.name = name
        self.recorded = dict(NOTHING, **recorded)
        self.program = build_folder / "tests" / "fuzz" / f"fuzz_{name}"
        self.folder = build_folder / "campaign" / name
        self.state_file = self.folder / "state.json"
        self.stuck = False  # a known input ended the target again
        self.lock = threading.Lock()
        self.under_way = 0  # turns that run now
        self.state = dict(NOTHING)  # since the last record
        if self.state_file.exists():
            self.state = json.loads(self.state_file.read_text())

    def total(self):
        return {key: (max if key == "edges" else sum)((self.recorded[key], self.state[key])) for key in NOTHING}

    def forget(self):
        if self.state_file.exists():
            self.state_file.write_text(json.dumps(NOTHING) + "\n")

    def findings(self):
        return sorted((self.folder / "findings").glob("*")) if (self.folder / "findings").exists() else []

    def stopped(self):
        return self.stuck or len(self.findings()) >= MOST_FINDINGS

    def turn(self, inputs, seconds):
        """Runs libFuzzer once, for `inputs` inputs and at most `seconds` seconds."""
        for part in ("corpus", "findings"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        with self.lock:
            seed = self.total()["turns"] + self.under_way + 1
            self.under_way += 1
        known = len(self.findings())
        dictionary = FUZZ / f"{self.name}.dict"
        command = [self.program, f"-runs={inputs}", f"-max_total_time={seconds}", *LIMITS, *SPEED,
                   f"-max_len={LENGTHS.get(self.name, 4096)}",
                   f"-seed={seed}", "-print_final_stats=1", "-print_funcs=0",
                   f"-dict={dictionary if dictionary.exists() else FUZZ / 'json.dict'}",
                   f"-artifact_prefix={self.folder / 'findings'}/", self.folder / "corpus", FUZZ / "corpus" / self.name]
        memory = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
        files = tempfile.mkdtemp(prefix="optrush-fuzz-", dir=memory)
        environment = dict(os.environ, TMPDIR=files, OMP_NUM_THREADS="1", UBSAN_OPTIONS="print_stacktrace=1",
                           ASAN_OPTIONS=f"{ASAN}:{os.environ.get('ASAN_OPTIONS', '')}")
        started = time.monotonic()
        output_file = self.folder / f"turn-{seed}.txt"
        with open(output_file, "wb") as output:
            words = [str(word) for word in command]
            process = subprocess.Popen(words, stdout=output, stderr=output, env=environment, cwd=files)
            _, status, usage = os.wait4(process.pid, 0)
        shutil.rmtree(files, ignore_errors=True)
        said = output_file.read_text(errors="replace")
        output_file.unlink()
        with self.lock:
            with open(self.folder / "log.txt", "a") as log:
                log.write(said)
            self.under_way -= 1
            self.take(said, time.monotonic() - started, usage)
        code = os.waitstatus_to_exitcode(status)
        self.stuck = code != 0 and len(self.findings()) == known
        return code

    def take(self, said, seconds, usage):
        executed = re.findall(r"number_of_executed_units: (\d+)", said)
        edges = re.findall(r" cov: (\d+)", said)
        if not executed:
            sys.exit(f"{self.name} did not start; it said:\n{said[-2000:]}")
        self.state["inputs"] += int(executed[-1])
        self.state["seconds"] += seconds
        self.state["cpu_seconds"] += usage.ru_utime + usage.ru_stime
        self.state["edges"] = max([self.state["edges"], *map(int, edges)])
        self.state["turns"] += 1
        self.state_file.write_text(json.dumps(self.state) + "\n")


def table(targets):
    lines = ["| target | inputs | seconds | of the CPU | inputs/s of the CPU | edges | findings |",
             "|---|---|---|---|---|---|---|"]
    for target in targets:
        state = target.total()
        rate = f"{state['inputs'] / state['cpu_seconds']:,.0f}" if state["cpu_seconds"] > 0 else "—"
        lines.append(f"| {target.name} | {state['inputs']:,} | {state['seconds']:,.0f} | {state['cpu_seconds']:,.0f} "
                     f"| {rate} | {state['edges']:,} | {len(target.findings())} |")
    return "\n".join(lines)


def run(targets, inputs, turn, limit_s, jobs):
    end = time.monotonic() + limit_s

    def one_turn(target, together):
        left = int(end - time.monotonic())
        if left > 0:
            code = target.turn(min(turn, -(-(inputs - target.total()["inputs"]) // together)), left)
            print(f"{target.name}: {target.total()['inputs']:,} inputs, {target.total()['edges']:,} edges"
                  + (f", FINDING: see {target.folder}" if code != 0 else ""), flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        while time.monotonic() < end:
            open_ones = [target for target in targets if target.total()["inputs"] < inputs and not target.stopped()]
            if not open_ones:
                break
            together = max(1, jobs // len(open_ones))  # turns of one target at once, if jobs outnumber the targets
            list(pool.map(one_turn, open_ones * together, itertools.repeat(together)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=10_000_000,
                        help="of each target; inputs of earlier calls and of the record count")
    parser.add_argument("--for", dest="limit_s", type=float, default=float("inf"), help="seconds for all targets")
    parser.add_argument("--turn", type=int, default=250_000, help="inputs of a target before the next one has its turn")
    parser.add_argument("--jobs", type=int, default=1, help="processes that run at once")
    parser.add_argument("--build", type=Path, default=SOURCE / "build-fuzz", help="folder of the build")
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--record", action="store_true", help="run nothing; add the results to campaign.json")
    parser.add_argument("targets", nargs="*", help="names; default: all")
    arguments = parser.parse_args()
    folder = arguments.build.resolve()
    names = sorted(path.name for path in (FUZZ / "corpus").iterdir())
    unknown = set(arguments.targets) - set(names)
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    recorded = json.loads(RECORD.read_text())
    targets = [Target(name, folder, recorded.get(name, {})) for name in arguments.targets or names]
    if not arguments.table:
        (folder / "campaign").mkdir(parents=True, exist_ok=True)
        alone = open(folder / "campaign" / "lock", "w")  # two campaigns would count the same inputs
        try:
            fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"a campaign runs in {folder}")
    if arguments.record:
        for target in targets:
            recorded[target.name] = {key: round(value) for key, value in target.total().items()}
        text = ",\n".join(f'  "{name}": {json.dumps(recorded[name])}' for name in names if name in recorded)
        RECORD.with_suffix(".tmp").write_text(f"{{\n{text}\n}}\n")
        RECORD.with_suffix(".tmp").rename(RECORD)
        for target in targets:
            target.forget()
        return 0
    if not arguments.table:
        build(folder, arguments.jobs)
        run(targets, arguments.inputs, arguments.turn, min(arguments.limit_s, 1e9), arguments.jobs)
    print(table(targets))
    return 1 if any(target.findings() for target in targets) else 0


if __name__ == "__main__":
    sys.exit(main())
