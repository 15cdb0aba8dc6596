"""One call: chooses its steps, runs each with a time limit, and packs their results."""

import concurrent.futures
import datetime
import itertools
import json
import platform
import shutil
import signal
import subprocess
import sys
import time

from quarter import archives, findings
from quarter.choosing import Quarter, open_steps, quarters_below
from quarter.installing import environment_of, install
from quarter.machine import Machine, other_cards
from quarter.predictions import plans_beside
from quarter.preflight import CUDA
from quarter.results import best_rungs, cases_left
from quarter.rows import STAND_IN
from quarter.running import GRACE, Runner
from quarter.stages import STAGES
from quarter.steps import Places

PACKING = 15  # seconds kept for it
LEAST = 20  # a step with less time does not begin
LATE = 1.5  # a step is ended after its minutes times this


class Refused(Exception):
    """What is wrong, and the remedy."""


def say(line):
    """Prints a whole line, also if steps run at the same time."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def missing_tools(step):
    return [tool for tool in step.tools if not any(shutil.which(one) for one in tool.split("|"))]


class Call:
    """`given`: the arguments of `stage`; `bundle`: its unpacked folder; `until`: the time of the clock when it ends."""

    def __init__(self, given, bundle, manifest, facts, until):
        self.given, self.bundle, self.manifest, self.facts, self.until = given, bundle, manifest, facts, until
        self.work, self.results, self.runner = given.work.resolve(), given.results.resolve(), Runner()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.runner.stop)

    def begin(self):
        self.work.mkdir(parents=True, exist_ok=True)
        if not (self.work / "machines").exists():
            count = archives.unpack((self.given.earlier or self.results).resolve(), self.work)
            say(f"unpacked {count} archives of the calls before" if count else
                "no earlier results: this is the first call")
        site, self.package = install(self.bundle, self.work)
        self.environment = environment_of(site, self.package, self.work / "cache")
        card, memory_bytes = self.first_gpu()
        for other in other_cards(self.work):
            if other.startswith(STAND_IN) != card.startswith(STAND_IN):
                raise Refused(f"the results so far are of {other}, and this device is {card}",
                              "name other folders by --results and --work")
        self.machine = Machine(self.work, card, memory_bytes)
        self.plans = plans_beside(self.bundle, card)
        say(f"{card}, {memory_bytes / 2**30:.1f} GiB, driver {self.facts.driver}")

    def first_gpu(self):
        """Name and bytes of the first GPU, as a run sees it."""
        out = self.work / "gpus.json"
        command = [self.package / "bin/optrush-worker", "gpus", "--out", out]
        asked = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if asked.returncode != 0:
            raise Refused(f"the program does not start: {(asked.stderr or asked.stdout).strip()[-600:]}",
                          f"its wheel needs torch {self.manifest['torch']} for CUDA {CUDA}")
        gpus = json.loads(out.read_text())
        if not gpus:
            raise Refused("no GPU can be used here", "optrush doctor names the reason")
        return gpus[0]["name"], int(gpus[0]["memory_bytes"])

    def so_far(self):
        """What this card has answered in these calls."""
        today = datetime.date.today().isoformat()
        return Quarter(self.machine.card, self.manifest["commit"], today, self.machine.steps)

    def chosen(self):
        """The steps of this call in their order, without those that have ended in an earlier call."""
        if self.given.stage == "next":
            quarters = [*quarters_below(self.bundle / "results"), self.so_far()]
            steps = [each.step for each in open_steps(quarters, self.manifest["commit"], self.so_far().kind)]
        else:
            steps = [step for step in STAGES[int(self.given.stage)].steps
                     if not self.given.step or step.name in self.given.step]
        for step in steps:
            if self.machine.ended(step.name):
                say(f"{step.title}: done in an earlier call")
        return steps, [step for step in steps if not self.machine.ended(step.name)]

    def keep(self, everything=False):
        """Writes the findings, and packs them; at the end of the call also caches and traces."""
        outcome = {
            "card": self.machine.card, "memory_bytes": self.machine.memory_bytes, "driver": self.facts.driver,
            "torch": self.facts.torch, "python": platform.python_version(), "commit": self.manifest["commit"],
            "date": datetime.date.today().isoformat(),
            **findings.outcome_of(self.machine.folder, self.machine.card, self.machine.steps, self.plans),
        }
        page = findings.page_of(outcome, self.machine.card)
        (self.machine.folder / "findings.md").write_text(page)
        self.results.mkdir(parents=True, exist_ok=True)
        (self.results / "findings.md").write_text(page)
        (self.results / "outcome.json").write_text(json.dumps(outcome, indent=1) + "\n")
        left_out = archives.pack(self.work, self.results, ("site", "bundle"), everything)
        return page, left_out

    def seconds_left(self):
        return self.until - PACKING - GRACE - time.monotonic()

    def run(self, step):
        outputs = self.machine.folder / "outputs" / step.name
        outputs.mkdir(parents=True, exist_ok=True)
        form, missing = step.form(self.machine.memory_bytes), missing_tools(step)
        if missing or not form:
            note = f"{', '.join(missing)} is not installed" if missing else (
                f"it needs a card of {step.forms[-1].least_bytes / 1e9:.0f} GB")
            self.machine.note(step.name, "left out", note=note)
            return say(f"{step.title}: left out, {note}")
        seconds = min(60 * LATE * step.minutes * self.given.patience, self.seconds_left())
        if seconds < LEAST or (not step.resumes and self.seconds_left() < 60 * step.minutes):
            return say(f"{step.title}: no time is left for it in this call")
        expected = "; ".join(f"{what}: {value.text()}" for what, value in step.expected.items())
        say(f"{step.title}: at most {seconds:.0f} s{'. Expected: ' + expected if expected else ''}")
        if form.note:
            say(f"  in its smaller form: {form.note}")
        at = Places(sys.executable, self.package, self.machine.folder / "reports", outputs, self.machine.memory_bytes,
                    self.machine.card.startswith(STAND_IN), *best_rungs(self.machine.folder))
        if step.cases:
            # Of an earlier call: the cases themselves are in a journal.
            (outputs / "check.json").unlink(missing_ok=True)
        environment = self.environment | step.environment
        status, code, spent = self.runner.run(form.command(at), environment, outputs, seconds)
        if step.cases and status in ("ok", "failed") and cases_left(outputs):
            status = "time limit"
        self.machine.note(step.name, status, code, spent, form.note)
        cause = f", exit code {code}: see outputs/{step.name}/log.txt" if status == "failed" else ""
        return say(f"  {step.name}: {status} after {spent:.0f} s{cause}")

    def all(self):
        self.begin()
        steps, left = self.chosen()
        later = []
        for _, group in itertools.groupby(left, lambda step: step.untimed or step.name):
            together = list(group)
            if self.seconds_left() < 60 * max(step.minutes for step in together):
                later += together  # a shorter step may fit
            else:
                self.run_together(together)
        for step in later:
            self.run_together([step])
        page, left_out = self.keep(everything=True)
        print(f"\n{page}")
        for path in left_out:
            print(f"not packed, as there is no room: {path}")
        print(f"results: {', '.join(file.name for file in archives.packed(self.results))} in {self.results}")
        if self.runner.stopped_by:
            return 128 + self.runner.stopped_by
        left = [step.title for step in steps if not self.machine.ended(step.name)]
        if left:
            print(f"left for another call: {'; '.join(left)}")
            return 3
        return 1 if any(self.machine.steps[step.name]["status"] == "failed" for step in steps) else 0

    def run_together(self, steps):
        if self.runner.stopped_by:
            return
        with concurrent.futures.ThreadPoolExecutor(len(steps)) as threads:
            list(threads.map(self.run, steps))  # raises what a step has raised
        self.keep()
