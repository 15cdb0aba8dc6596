"""Invariants under faults: results kept and equal, no run twice, no process left, the same report, clear messages."""

import json
import re

RAW = re.compile(r"\[json\.exception|basic_string|terminate called|std::|vector::|filesystem error|map::at|"
                 r"bad optional|stod|stoi|stol\b|Traceback|core dumped|type_error|parse_error|double free|_M_|"
                 r"Assertion")
OF_RESULTS = ("status", "reason", "plan", "plugins", "flops_per_token", "validation", "turns_taken")
OF_STEPS = ("step", "timed", "loss", "grad_norm", "tokens")
OF_ROWS = ("variant", "rung", "group", "status", "reason", "notes", "devices", "rounds", "costs", "predicted_peak",
           "final_loss", "loss_change", "validation", "validation_loss", "counters", "gate")


def of_result(result):
    """The parts of a result that do not depend on time."""
    kept = {key: result[key] for key in OF_RESULTS if key in result}
    kept["steps"] = [{key: step.get(key) for key in OF_STEPS} for step in result.get("steps", [])]
    return kept


def of_report(folder):
    """The results without times, speeds, process memory and dates."""
    report = json.loads((folder / "results.json").read_text())

    def stored(run, name):
        return json.loads((folder / "runs" / run / name).read_text())

    return {
        "missing_runs": report["missing_runs"],
        "rows": [{key: row.get(key) for key in OF_ROWS} for row in report["rows"]],
        "runs": {run: {"spec": stored(run, "spec.json"), **of_result(stored(run, "result.json"))}
                 for run in report["runs"]},
    }


def difference(there, here, where=""):
    """The first place where two reports differ; "" if they are equal."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted(set(there) | set(here), key=str):
            if key not in there or key not in here:
                return f"{where}.{key} is only in {'the undisturbed one' if key in there else 'this one'}"
            if found := difference(there[key], here[key], f"{where}.{key}"):
                return found
        return ""
    if isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        pairs = enumerate(zip(there, here))
        return next(filter(None, (difference(a, b, f"{where}[{i}]") for i, (a, b) in pairs)), "")
    return "" if there == here else f"{where}: {str(there)[:80]!r} undisturbed, {str(here)[:80]!r} here"


def own_words(text):
    """The text without quoted lines of a worker's log, which may come from any library."""
    return re.sub(r"last lines of [^\n]*:\n(?:(?!optrush: |warning: |\[\d).*\n?)*", "", text)


def unclear(end, file=None, may_fail=True):
    """The reason why a message does not help a user; "" if it does."""
    if end.hangs:
        return "hangs"
    if end.code < 0:
        return f"ended by signal {-end.code}"
    if found := RAW.search(own_words(end.text)):
        line = next(line for line in own_words(end.text).splitlines() if found.group() in line)
        return "raw text: " + line[:200]
    if end.code not in (0, 1, 2, 129, 130, 143):
        return f"exit code {end.code}"
    if end.code != 0 and not may_fail:
        return "fails: " + end.text[-300:]
    if end.code != 0 and file is not None and "error[" in end.text and file not in end.text:
        return f"does not name {file}: " + end.text[-300:]
    return ""


class Ledger:
    """Follows one report from fault to fault."""

    def __init__(self, scene):
        self.scene = scene
        self.kept = {}  # {run that ended well: bytes of its result}
        self.excused = set()  # runs with damaged or removed files
        self.read = 0  # lines of the journal that were read

    def round_of(self, run):
        return run.rsplit("-", 1)[1]

    def look(self):
        """(results lost or changed, runs made twice) since the last look."""
        results = self.scene.results()
        again = self.made_again()
        lost = [run for run, data in self.kept.items()
                if run not in self.excused and run not in again and (run not in results or results[run][0] != data)]
        self.kept = {run: data for run, (data, result) in results.items() if result.get("status") == "ok"}
        twice = [run for run, whole in again.items() if whole and run not in self.excused]
        return lost, twice

    def made_again(self):
        """{run that started again after it had ended well: whether that is a fault}.

        A group of interleaved runs is repeated as a whole.
        """
        entries = self.scene.journal()
        again, done = {}, set()
        for i, entry in enumerate(entries):
            run = entry.get("run", "")
            if entry.get("event") == "finished" and entry.get("status") == "ok":
                done.add(run)
            if entry.get("event") == "started" and run in done and i >= self.read:
                same_round = self.round_of(run)
                group = {other["run"] for other in entries if self.round_of(other.get("run", "-")) == same_round}
                again[run] = self.scene.name != "turns" or group <= done
        self.read = len(entries)
        return again

    def excuse(self, run):
        self.excused.add(run)
