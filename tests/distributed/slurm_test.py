"""Jobs of two nodes with real workers on a real SLURM.

Several steps run at once. A job that gets SIGTERM, SIGUSR1 or the signal before its time limit saves its state;
experiments/requeue.sbatch requeues it and it continues. A job restarts a lost worker. A cancelled job stays cancelled.
A killed job continues with --resume.
"""

import json
import os
import pathlib
import signal
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

    def submit(self, steps, *arguments, **options):
        words = self.options("--arg", f"steps={steps}", *arguments)
        output = self.folder / "job-%j.out"
        more = [f"--{name}={value}" for name, value in options.items()]
        done = self.cluster.run("sbatch", "--parsable", "--nodes=2", "--ntasks-per-node=1", f"--output={output}", *more,
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
        file = self.folder / f"job-{job}.out"
        return file.read_text() if file.exists() else ""

    def events(self, job):
        return [json.loads(line) for line in (self.report(job) / "journal.jsonl").read_text().splitlines()]

    def kill_worker(self, job, rank):
        """Finds the worker by its command line, which names the state folder of the job's report."""
        folder = str(self.report(job) / "runs" / RUN)
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_text().split("\0")
                if folder + "/state" in words and words[words.index("--rank") + 1] == str(rank):
                    os.kill(int(entry.name), signal.SIGKILL)
            except (OSError, ValueError):
                continue

    def wait_for(self, condition, what, job, limit=60):
        try:
            self.cluster.wait_for(condition, what, limit)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output(job)}") from None


def two_jobs_share_nodes(jobs):
    """Two jobs share the two machines, and the ranks of each job find each other."""
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
    assert losses[0] == losses[1], "equal jobs train equally"


def job_survives_sigterm(jobs):
    """SIGTERM, as of a preemption or a time limit: the job saves its state at once and continues when requeued."""
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
    # Both tasks end with the same code, and rank 1 gives the reason.
    assert "rank 1 (host " in jobs.output(job) and "ends with exit code 143" in jobs.output(job), jobs.output(job)


def usr1_is_passed_on(jobs):
    """--signal=B:USR1 signals only the batch script, which passes the signal on; --signal=USR1 signals the tasks."""
    for words in (["--batch"], []):
        job = jobs.submit(1000000, "--set", "timeout=60")
        jobs.wait_for(lambda job=job: jobs.steps_done(job) > 20, "step", job)
        jobs.cluster.run("scancel", "--signal=USR1", *words, job)
        continues = f"{RUN} continues from its state before step"
        jobs.wait_for(lambda job=job: continues in jobs.output(job), "requeued job", job, limit=90)
        (interrupted,) = [event for event in jobs.events(job) if event["event"] == "interrupted"]
        assert interrupted["reason"].startswith("SIGUSR1"), interrupted
        assert "rank 1 (host " in jobs.output(job) and "ends with exit code 138" in jobs.output(job), jobs.output(job)
        jobs.cluster.run("scancel", job)
        jobs.wait_for(lambda job=job: jobs.cluster.state(job) == "CANCELLED", "end of the job", job)


def signal_before_limit(jobs):
    """The directive of the script makes SLURM send the signal.

    SLURM checks time limits every 30 s, so the test shortens the limit when the job trains.
    """
    job = jobs.submit(1000000, time="1:00:00", signal="B:USR1@100")
    jobs.wait_for(lambda: jobs.steps_done(job) > 20, "step", job)
    assert all(event["event"] != "interrupted" for event in jobs.events(job)), jobs.events(job)
    jobs.cluster.limit(job, minutes=2)
    jobs.wait_for(lambda: any(event["event"] == "interrupted" for event in jobs.events(job)), "signal", job, limit=90)
    jobs.cluster.limit(job, minutes=60)  # otherwise SLURM would signal the requeued job too
    continues = f"{RUN} continues from its state before step"
    jobs.wait_for(lambda: continues in jobs.output(job), "requeued job", job, limit=90)
    (interrupted,) = [event for event in jobs.events(job) if event["event"] == "interrupted"]
    assert interrupted["reason"].startswith("SIGUSR1"), interrupted
    jobs.cluster.run("scancel", job)
    jobs.wait_for(lambda: jobs.cluster.state(job) == "CANCELLED", "end of the job", job)


def lost_worker_restarts(jobs):
    """The job continues with the same tasks; only its workers restart."""
    job = jobs.submit(300, "--arg", "every=20", "--max-restarts", "1")
    jobs.wait_for(lambda: jobs.steps_done(job) > 45, "step", job)
    jobs.kill_worker(job, rank=1)
    jobs.wait_for(lambda: jobs.cluster.state(job) == "COMPLETED", "end of the job", job, limit=90)
    result = jobs.result(job)
    assert result["status"] == "ok" and [step["step"] for step in result["steps"]] == list(range(301)), result["reason"]
    (fault,) = [event for event in jobs.events(job) if event["event"] == "restarted"]
    assert fault["rank"] == 1 and fault["kept"] % 20 == 0, fault
    assert fault["kept"] <= fault["made"] <= fault["kept"] + 20, fault
    assert f"{RUN} starts again (1 of at most 1): rank 1 (host " in jobs.output(job), jobs.output(job)


def cancelled(jobs):
    """A cancelled job saves its state too, and is not requeued."""
    job = jobs.submit(1000000)
    jobs.wait_for(lambda: jobs.steps_done(job) > 5, "step", job)
    jobs.cluster.run("scancel", job)
    jobs.wait_for(lambda: jobs.cluster.state(job) == "CANCELLED", "end of the job", job)
    assert jobs.result(job) is None, jobs.result(job)
    assert (jobs.report(job) / "runs" / RUN / "state" / "state.json").exists(), jobs.output(job)
    assert jobs.events(job)[-1]["event"] == "interrupted", jobs.events(job)[-1]


def killed(jobs):
    """SIGKILL gives no warning: the run has no result, and --resume continues from its last saved state."""
    job = jobs.submit(1000000, "--arg", "every=10")
    state = jobs.report(job) / "runs" / RUN / "state" / "state.json"
    jobs.wait_for(state.exists, "state", job)
    jobs.cluster.run("scancel", "--full", "--signal=KILL", job)
    jobs.wait_for(lambda: jobs.cluster.state(job) in ("FAILED", "CANCELLED"), "end of the job", job)
    result = jobs.result(job)
    assert result is None or result["cause"] == "lost", result
    step = json.loads(state.read_text())["step"]
    options = jobs.options("--arg", "every=10", "--arg", "steps=1000000", "--label", f"job-{job}", "--resume")
    again = jobs.cluster.run("srun", "--nodes=2", "--ntasks=2", "--quiet", OPTRUSH, "run", *options,
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
            for test in (two_jobs_share_nodes, job_survives_sigterm, usr1_is_passed_on, signal_before_limit,
                         lost_worker_restarts, cancelled, killed):
                if sys.argv[1:] and test.__name__ not in sys.argv[1:]:
                    continue
                jobs_folder = folder / test.__name__
                jobs_folder.mkdir()
                print(test.__name__, flush=True)
                test(Jobs(cluster, jobs_folder))
        finally:
            cluster.__exit__()


if __name__ == "__main__":
    main()
