"""A real SLURM: steps of two nodes with real workers, several at once; a job that is told to stop saves its state, is
requeued by experiments/requeue.sbatch and goes on; one that is cancelled stays so; one that is killed goes on as well.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from slurm import Cluster, NotHere

SOURCE = pathlib.Path(__file__).resolve().parents[2]
OPTRUSH = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]) / "bin" / "optrush"
SCRIPT = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "ranks",
  model = rush.llama { dim = 32, n_layers = 2, n_heads = 2, n_kv_heads = 2, ffn_dim = 64, vocab_size = 64 },
  train = { steps = rush.arg("steps", 4), warmup = 1, seq_len = 16, world_size = 2 },
  plugins = { "ddp" },
  save = { every = rush.arg("every", 1000000) },
  device = "cpu", threads = 1,
}
exp:run({ rounds = 1 }):report()
"""
RUN = "00-base-r1"


class Jobs:
    def __init__(self, cluster, folder):
        self.cluster, self.folder = cluster, folder
        self.script = folder / "ranks.lua"
        self.script.write_text(SCRIPT)
        self.reports = folder / "reports"

    def options(self, *arguments):
        return [self.script, "--out", self.reports, *arguments]

    def submit(self, steps, *arguments):
        words = self.options("--arg", f"steps={steps}", *arguments)
        output = self.folder / "job-%j.out"
        done = self.cluster.run("sbatch", "--parsable", "--nodes=2", "--ntasks-per-node=1", f"--output={output}",
                                SOURCE / "experiments" / "requeue.sbatch", *words, OPTRUSH=str(OPTRUSH))
        return done.stdout.strip()

    def report(self, job):
        return self.reports / "ranks" / f"job-{job}"

    def result(self, job):
        file = self.report(job) / "runs" / RUN / "result.json"
        return json.loads(file.read_text()) if file.exists() else None

    def steps_done(self, job):
        file = self.report(job) / "runs" / RUN / "ranks" / "0" / "metrics.jsonl"
        return file.read_text().count('"event":"step"') if file.exists() else 0

    def output(self, job):
        return (self.folder / f"job-{job}.out").read_text()

    def events(self, job):
        return [json.loads(line) for line in (self.report(job) / "journal.jsonl").read_text().splitlines()]

    def wait_for(self, condition, what, job, limit=60):
        try:
            self.cluster.wait_for(condition, what, limit)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output(job)}") from None


def several_steps_at_once(jobs):
    """Jobs share the two machines, and their ranks find each other."""
    started = []
    for label in ("one", "two"):
        command = ["srun", "--nodes=2", "--ntasks=2", "--quiet", OPTRUSH, "run", *jobs.options("--label", label)]
        started.append(subprocess.Popen([str(word) for word in command], env=jobs.cluster.environment, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    losses = []
    for label, process in zip(("one", "two"), started):
        out, error = process.communicate(timeout=100)
        assert process.returncode == 0, out + error
        result = json.loads((jobs.reports / "ranks" / label / "runs" / RUN / "result.json").read_text())
        assert result["status"] == "ok" and [row["rank"] for row in result["ranks"]] == [0, 1], result
        losses.append([step["loss"] for step in result["steps"]])
    assert losses[0] == losses[1], "alike jobs train alike"


def told_to_stop(jobs):
    """As a preemption or a time limit tells it: the state is saved at once, and the requeued job goes on from there."""
    job = jobs.submit(800)
    jobs.wait_for(lambda: jobs.steps_done(job) > 20, "step", job)
    jobs.cluster.run("scancel", "--signal=TERM", job)
    jobs.wait_for(lambda: jobs.cluster.state(job) == "COMPLETED", "end of the requeued job", job, limit=90)
    result = jobs.result(job)
    assert result["status"] == "ok", result["reason"]
    assert [step["step"] for step in result["steps"]] == list(range(801)), "no step is missing"
    (saved, end) = [point["step"] for point in result["saved"]]
    assert 20 < saved < end == 801, result["saved"]
    (note,) = [note for note in result["notes"] if "interrupted" in note]
    assert f"at step {saved}," in note, note
    assert f"{RUN} continues from its state before step {saved}" in jobs.output(job), jobs.output(job)
    events = jobs.events(job)
    (interrupted,) = [event for event in events if event["event"] == "interrupted"]
    assert interrupted["reason"].startswith("SIGTERM"), interrupted
    assert [event["status"] for event in events if event["event"] == "finished"] == ["ok"], events
    # Both tasks end alike, and rank 1 says why.
    assert "rank 1 (host " in jobs.output(job) and "ends with exit code 143" in jobs.output(job), jobs.output(job)


def cancelled(jobs):
    """It saves as well, and is not begun again by itself."""
    job = jobs.submit(1000000)
    jobs.wait_for(lambda: jobs.steps_done(job) > 5, "step", job)
    jobs.cluster.run("scancel", job)
    jobs.wait_for(lambda: jobs.cluster.state(job) == "CANCELLED", "end of the job", job)
    assert jobs.result(job) is None, jobs.result(job)
    assert (jobs.report(job) / "runs" / RUN / "state" / "state.json").exists(), jobs.output(job)
    assert jobs.events(job)[-1]["event"] == "interrupted", jobs.events(job)[-1]


def killed(jobs):
    """Without a word of warning: nothing is recorded of the run, and it goes on from the state that it had saved."""
    job = jobs.submit(1000000, "--arg", "every=10")
    state = jobs.report(job) / "runs" / RUN / "state" / "state.json"
    jobs.wait_for(state.exists, "state", job)
    jobs.cluster.run("scancel", "--full", "--signal=KILL", job)
    jobs.wait_for(lambda: jobs.cluster.state(job) in ("FAILED", "CANCELLED"), "end of the job", job)
    result = jobs.result(job)
    assert result is None or result["cause"] == "lost", result
    step = json.loads(state.read_text())["step"]
    again = jobs.cluster.run("srun", "--nodes=2", "--ntasks=2", "--quiet", OPTRUSH, "run",
                             *jobs.options("--arg", "every=10", "--arg", "steps=1000000", "--label", f"job-{job}", "--resume"),
                             "--set", "timeout=3", check=False)
    assert again.returncode == 1, again.stderr
    assert f"{RUN} continues from its state before step {step}" in again.stderr, again.stderr


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        try:
            cluster = Cluster(folder / "slurm")
            cluster.__enter__()
        except NotHere as reason:
            print(reason)
            sys.exit(77)
        try:
            for test in (several_steps_at_once, told_to_stop, cancelled, killed):
                jobs_folder = folder / test.__name__
                jobs_folder.mkdir()
                print(test.__name__, flush=True)
                test(Jobs(cluster, jobs_folder))
        finally:
            cluster.__exit__()


if __name__ == "__main__":
    main()
