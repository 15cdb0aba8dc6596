"""What must hold whatever happened: results kept and equal, no run twice, no process left, the same report, clear messages."""

import json
import re

RAW = re.compile(r"\[json\.exception|basic_string|terminate called|std::|vector::|filesystem error|map::at|bad optional|"
                 r"stod|stoi|stol\b|Traceback|core dumped|type_error|parse_error|double free|_M_|Assertion")
OF_RESULTS = ("status", "reason", "plan", "plugins", "flops_per_token", "validation", "turns_taken")
OF_STEPS = ("step", "timed", "loss", "grad_norm", "tokens")
OF_ROWS = ("variant", "rung", "group", "status", "reason", "notes", "devices", "rounds", "costs", "predicted_peak", "final_loss",
           "loss_change", "validation", "validation_loss", "counters", "gate")


def of_result(result):
    """What of a run no clock decides."""
    kept = {key: result[key] for key in OF_RESULTS if key in result}
    kept["steps"] = [{key: step.get(key) for key in OF_STEPS} for step in result.get("steps", [])]
    return kept


def of_report(folder):
    """results.json but for times, speeds, memory of the process, dates."""
    report = json.loads((folder / "results.json").read_text())
    return {
        "missing_runs": report["missing_runs"],
        "rows": [{key: row.get(key) for key in OF_ROWS} for row in report["rows"]],
        "runs": {run["id"]: {"spec": run["spec"], **of_result(run["result"])} for run in report["runs"]},
    }


def difference(there, here, where=""):
    """The first place where two reports differ; "" where none does."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted(set(there) | set(here), key=str):
            if key not in there or key not in here:
                return f"{where}.{key} is only in {'the undisturbed one' if key in there else 'this one'}"
            if found := difference(there[key], here[key], f"{where}.{key}"):
                return found
        return ""
    if isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        return next(filter(None, (difference(a, b, f"{where}[{i}]") for i, (a, b) in enumerate(zip(there, here)))), "")
    return "" if there == here else f"{where}: {str(there)[:80]!r} undisturbed, {str(here)[:80]!r} here"


def own_words(text):
    """Without what is quoted of a worker's log, which is whatever its libraries say."""
    return re.sub(r"last lines of [^\n]*:\n(?:(?!optrush: |warning: |\[\d).*\n?)*", "", text)


def unclear(end, file=None, may_fail=True):
    """Why a message is no good for a user; "" where it is."""
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
        self.kept = {}  # of each run that ended well: its bytes
        self.excused = set()  # runs whose files were damaged or removed
        self.read = 0  # lines of the journal

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
        """Runs that were started though they had ended well, and whether that was wrong: of runs interleaved a whole group is made again."""
        entries = self.scene.journal()
        again, done = {}, set()
        for i, entry in enumerate(entries):
            run = entry.get("run", "")
            if entry.get("event") == "finished" and entry.get("status") == "ok":
                done.add(run)
            if entry.get("event") == "started" and run in done and i >= self.read:
                group = {other["run"] for other in entries if self.round_of(other.get("run", "-")) == self.round_of(run)}
                again[run] = self.scene.name != "turns" or group <= done
        self.read = len(entries)
        return again

    def excuse(self, run):
        self.excused.add(run)
