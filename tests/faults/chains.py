"""Chains of faults, each over one experiment or one folder of files."""

import json
import shutil
import signal
import time

import fault_machine
import fault_plugins
import fault_signals
import invariants
import processes
import scenes

RUNNING = ("ladder", "ranks", "turns", "external")
LENGTH = 5


def reference(campaign, name):
    if name not in campaign.references:
        context = campaign.references["ladder"].context if campaign.references else None
        if context is None and name != "ladder":
            context = reference(campaign, "ladder").context
        scene = scenes.Scene(name, campaign.folder / "undisturbed" / name)
        campaign.references[name] = scenes.Reference(scene, context)
    return campaign.references[name]


class Going:
    """An experiment under faults and its controller, which is restarted whenever it has ended."""

    def __init__(self, campaign, number, name):
        self.campaign, self.mark = campaign, f"chain-{campaign.seed}-{number}"
        self.random = campaign.random(number)
        self.reference = reference(campaign, name)
        self.scene = self.reference.scene  # reports name their script, so the place is the same
        self.stored = campaign.folder / "stored"
        shutil.rmtree(self.stored, ignore_errors=True)
        self.scene.report.rename(self.stored)
        self.reference.context = self.stored / "context.json"
        self.scene.fresh(self.reference)
        self.ledger = invariants.Ledger(self.scene)
        self.process = self.second = None
        self.hurt = self.ends = False
        self.end = None

    def begin(self, **options):
        self.process = scenes.start(self.scene.command(), self.mark, **options)

    def wait(self):
        if self.process is not None:
            self.end = scenes.Ended(self.process)
        return self.end

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.wait()
        self.process = None

    def done(self):
        return any(entry.get("event") == "ended" for entry in self.scene.journal()[-1:])

    def finish(self):
        """Runs to the end without faults. Removes the folders of failed runs, as the documentation tells users to."""
        if self.process is not None and self.process.poll() is None:
            self.wait()
        for run, (_, result) in self.scene.results().items():
            if result.get("status") not in ("ok", "skipped"):
                shutil.rmtree(self.scene.report / "runs" / run)
        return self.scene.run(self.mark)

    def put_back(self):
        self.stop()
        shutil.rmtree(self.scene.folder / "reports", ignore_errors=True)
        self.scene.report.parent.mkdir(parents=True)
        self.stored.rename(self.scene.report)
        self.reference.context = self.scene.report / "context.json"


def fault(number, position, scene, kind, **more):
    return {"number": number * 100 + position, "chain": number, "scene": scene, "kind": kind, "struck": True, **more}


def struck(going, kind):
    """Injects one fault at a random moment. True if it struck before the experiment ended."""
    going.ends = going.hurt = False
    going.second = None
    module = fault_signals if kind in fault_signals.KINDS else fault_machine
    if module is fault_signals or kind.startswith("disk full"):
        if going.process is None or going.process.poll() is not None:
            going.begin()
        time.sleep(going.random.uniform(0, 0.6) * going.reference.seconds)
    came = module.apply(kind, going)
    if going.ends:
        going.wait()
    return came


def after(going, kind):
    """What the fault did to the invariants."""
    ended = going.process is not None and going.process.poll() is not None
    found = {}
    if ended:
        end = going.wait() if going.end is None else going.end
        found["left"] = processes.left(going.mark)
        if not (kind == "controller SIGKILL" and end.code == -9):
            found["unclear"] = invariants.unclear(end)
        if going.hurt and end.code == 1 and "error[" not in end.text and not going.scene.results():
            found["unclear"] = "says nothing: " + end.text[-200:]
    if going.second is not None:
        found["unclear"] = found.get("unclear") or invariants.unclear(going.second)
        if going.process.poll() is None and going.second.code == 0:
            found["unclear"] = "the second controller ran beside the first"
    lost, twice = going.ledger.look()
    return {**found, "lost": lost, "twice": twice}


def running(campaign, number, name, kinds):
    """Faults over one experiment, then its end, which must equal the end without faults."""
    going = Going(campaign, number, name)
    told = []
    try:
        for position, kind in enumerate(kinds):
            if why := fault_machine.obstacle(kind, campaign):
                told.append(fault(number, position, name, kind, skipped=why, struck=False))
                continue
            going.end = None
            begin = time.monotonic()
            came = struck(going, kind)
            seconds = round(time.monotonic() - begin, 2)
            told.append(fault(number, position, name, kind, **after(going, kind), seconds=seconds))
            told[-1]["struck"] = came
            if going.process is None or going.process.poll() is not None:
                going.process = None
                if going.done():
                    break
        last = told[-1]
        end = going.finish()
        last["unclear"] = last.get("unclear") or invariants.unclear(end, may_fail=False)
        last["left"] = last.get("left") or processes.left(going.mark)
        lost, twice = going.ledger.look()
        last["lost"], last["twice"] = last.get("lost", []) + lost, last.get("twice", []) + twice
        try:
            there = invariants.of_report(going.stored)
            last["differs"] = invariants.difference(there, invariants.of_report(going.scene.report))
        except (OSError, ValueError) as problem:
            last["differs"] = f"there is no report: {problem}"
    finally:
        going.put_back()
    return told


def plugin(campaign, number, kind):
    """One experiment with a plugin that misbehaves."""
    context = reference(campaign, "ladder").context
    scene = scenes.Scene("plugin", campaign.folder / "plugin")
    shutil.rmtree(scene.folder / "reports", ignore_errors=True)
    scene.report.mkdir(parents=True)
    shutil.copy(context, scene.report)
    how = kind.removeprefix("plugin ")
    mark = f"chain-{campaign.seed}-{number}"
    more = ["--arg", f"how={how}"]
    if "timeout" in fault_plugins.HOW[how]:
        more += ["--set", "timeout=10"]
    begin = time.monotonic()
    end = scene.run(mark, *more, **({"preexec_fn": fault_machine.limit_of(16 << 30)} if how == "takes memory" else {}))
    found = {"left": processes.left(mark), "unclear": invariants.unclear(end)}
    try:
        found["differs"] = fault_plugins.judge(kind, json.loads((scene.report / "results.json").read_text()))
    except (OSError, ValueError, KeyError) as problem:
        found["differs"] = f"there is no report: {problem!r}: {end.text[-300:]}"
    return [fault(number, 0, "plugin", kind, **found, seconds=round(time.monotonic() - begin, 2))]
