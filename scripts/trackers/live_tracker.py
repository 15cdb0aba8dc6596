"""Shows the steps of runs in TensorBoard or Weights & Biases while they are made: it follows metrics.jsonl of every run
of a report.

    live_tracker.py TRACKER REPORT FOLDER EXPERIMENT     runs until FOLDER/end exists, and writes the remaining steps
    live_tracker.py TRACKER                              exits with 3 if the tracker's package is missing, and prints
                                                         its name

A step that a run repeats after a fault or a --resume is written once: logged.json has the last written step of each
run.
"""

import hashlib
import json
import os
import pathlib
import secrets
import sys
import time

MISSING = 3
PERIOD = 0.5
VALUES = ("loss", "grad_norm", "learning_rate")


class TensorBoard:
    PACKAGE = "tensorboard"

    def __init__(self, folder, run, **_):
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / run))

    def log(self, step, values, at):
        for name, value in values.items():
            self.writer.add_scalar(name, value, step, walltime=at)

    def flush(self):
        self.writer.flush()

    def close(self):
        self.writer.close()


class WeightsAndBiases:
    PACKAGE = "wandb"

    def __init__(self, folder, run, identity, experiment, spec):
        import wandb

        # When offline runs with the same id are synchronized, they become one run.
        self.run = wandb.init(mode="offline", dir=str(folder), project=experiment, name=run, group=spec.get("rung", ""),
                              id=identity, resume="allow",
                              reinit="create_new", config=spec,
                              settings=wandb.Settings(disable_git=True, console="off", x_disable_stats=True))

    def log(self, step, values, at):
        self.run.log(values, step=step)

    def flush(self):
        pass  # its own process writes

    def close(self):
        self.run.finish()


def package_of(tracker):
    kind = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}[tracker]
    os.environ["WANDB_SILENT"] = "true"
    for package in (kind.PACKAGE, *(["torch"] if tracker == "tensorboard" else [])):
        try:
            __import__(package)
        except ImportError:
            print(package)
            sys.exit(MISSING)
    return kind


def number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def values_of(line):
    """The values of a step in a line of metrics.jsonl."""
    if line.get("event") == "validation":
        return {"validation_loss": line["loss"]} if number(line.get("loss")) else {}
    values = {name: line[name] for name in VALUES if number(line.get(name))}
    seconds = line.get("seconds")
    if line.get("timed") and number(seconds) and seconds > 0:
        values["step_seconds"] = seconds
        tokens = line.get("processed_tokens", line.get("tokens"))
        if number(tokens):
            values["tokens_per_second"] = tokens / seconds
    return values


class Run:
    """One run of the report, including all of its starts."""

    def __init__(self, folder, out, logged):
        self.folder, self.out, self.logged = folder, out, logged
        self.files = (folder / "ranks/0/metrics.jsonl", folder / "metrics.jsonl")
        self.file = None
        self.mark, self.spec, self.writer = None, None, None

    def lines(self):
        """The new complete lines. If a start has ended, its remaining lines come first."""
        present = self.present()
        if self.file is None or (present is not None and not os.path.samestat(present, os.fstat(self.file.fileno()))):
            if self.file is not None:
                yield from self.added()
                self.file.close()
            self.file = self.opened()
        if self.file is not None:
            yield from self.added()

    def present(self):
        for file in self.files:
            try:
                return os.stat(file)
            except OSError:
                continue
        return None

    def opened(self):
        """The file. It is kept open, because a new file could get the inode number of a removed one."""
        for file in self.files:
            try:
                return open(file, "rb")
            except OSError:
                continue
        return None

    def added(self):
        *whole, rest = self.file.read().split(b"\n")
        self.file.seek(-len(rest), os.SEEK_CUR)
        for line in whole:
            try:
                line = json.loads(line)
            except ValueError:
                continue
            if isinstance(line, dict) and line.get("event") in ("step", "validation") and number(line.get("step")):
                yield line

    def read_spec(self):
        """Reads the spec. A run with another spec in the same folder is a new run with a new name."""
        try:
            spec = json.loads((self.folder / "spec.json").read_text())
        except (OSError, ValueError):
            return False
        same = {name: value for name, value in spec.items() if name != "timeout_s"}
        mark = hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()[:16]
        if mark != self.mark:
            self.close()
            self.mark, self.spec = mark, spec
            before = self.logged.get(self.folder.name)
            if before is None or before["spec"] != mark:
                number = 1 if before is None else before["number"] + 1
                self.logged[self.folder.name] = {"spec": mark, "number": number, "id": secrets.token_hex(6),
                                                        "step": -1, "validation": -1}
        return True

    def follow(self, kind, experiment):
        if not self.read_spec():
            return False
        last, wrote = self.logged[self.folder.name], False
        name = self.folder.name + (f".{last['number']}" if last["number"] > 1 else "")
        for line in self.lines():
            what, values = line["event"], values_of(line)
            if line["step"] <= last[what]:
                continue
            if self.writer is None:
                self.writer = kind(self.out, name, identity=last["id"], experiment=experiment, spec=self.spec)
            if values:
                # A validation uses the parameters after the previous step.
                self.writer.log(line["step"] - (what == "validation"), values, line.get("time", time.time()))
            last[what] = line["step"]
            wrote = True
        if wrote:
            self.writer.flush()
        return wrote

    def close(self):
        if self.writer is not None:
            self.writer.close()
        self.writer = None


def follow(kind, report, out, experiment):
    out.mkdir(parents=True, exist_ok=True)
    file, end = out / "logged.json", out / "end"
    logged = json.loads(file.read_text()) if file.exists() else {}
    runs = {}
    while True:
        last = end.exists()
        wrote = False
        for folder in sorted(report.glob("runs/*/")):
            run = runs.setdefault(folder.name, Run(folder, out, logged))
            wrote = run.follow(kind, experiment) or wrote
        if wrote:
            (out / "logged.json.tmp").write_text(json.dumps(logged))
            os.replace(out / "logged.json.tmp", file)
        if last:
            break
        for _ in range(10):
            if not end.exists():
                time.sleep(PERIOD / 10)
    for run in runs.values():
        run.close()
    end.unlink()


kind = package_of(sys.argv[1])
if len(sys.argv) > 2:
    follow(kind, pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4])
