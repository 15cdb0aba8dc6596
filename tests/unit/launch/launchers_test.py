"""One script under torchrun, mpirun and srun's variables, with a fake worker: rank 0 reports, and the others follow it.

A fault of any rank ends in the row of its run within a limited time, and no process or file stays.

    launchers_test.py CASE: torchrun, mpirun, or one of the functions below.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from ports import free_ports  # noqa: E402

BUILD = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"])
HERE = pathlib.Path(__file__).resolve().parent
TORCHRUN = pathlib.Path(sys.prefix) / "bin" / "torchrun"
MASTER_VARIABLES = ("MASTER_ADDR", "MASTER_PORT")


def skip(reason):
    print(reason)
    sys.exit(77)


class Job:
    """A folder with a script, and an installation with the fake worker."""

    def __init__(self, folder, rungs):
        self.folder = pathlib.Path(folder)
        binaries = self.folder / "installation" / "bin"
        binaries.mkdir(parents=True)
        shutil.copy(BUILD / "bin" / "optrush", binaries)
        shutil.copy(BUILD / "installation.json", binaries.parent)
        (binaries / "optrush-worker").symlink_to(HERE / "fake_worker.py")
        self.optrush = binaries / "optrush"
        self.script = self.write_script("job.lua", rungs)
        self.shared = self.folder / "shared"
        self.shared.mkdir()
        self.started = self.folder / "started"
        self.temporary = self.folder / "temporary"
        self.temporary.mkdir()
        self.environment = dict(os.environ, FAKE_RANKS_FOLDER=str(self.shared), FAKE_WORKER_STARTS=str(self.started),
                                TMPDIR=str(self.temporary), XDG_STATE_HOME=str(self.folder / "state"))
        for name in MASTER_VARIABLES:
            self.environment.pop(name, None)

    def write_script(self, name, rungs):
        script = self.folder / name
        lines = [f'rush.rung("{word}", {{ train = {{ world_size = {size} }} }}),' for word, size in rungs]
        script.write_text(
            'local rush = require "optrush"\n'
            'local exp = rush.experiment {\n'
            '  name = "job", model = rush.llama "nano", question = rush.ranks() .. " ranks"\n}\n'
            "exp:ladder {\n" + "\n".join(lines) + "\n}\nexp:run({ rounds = 1 }):report()\n"
        )
        return script

    def command(self, script=None):
        return [self.optrush, "run", script or self.script, "--out", self.folder / "reports"]

    @property
    def report(self):
        return self.folder / "reports" / "job" / "local"

    def results(self):
        """{word of a rung: (status, reason) of its run}"""
        found = {}
        for run in sorted(self.report.glob("runs/*-r1")):
            result = json.loads((run / "result.json").read_text())
            found[run.name.split("-")[1]] = (result["status"], result["reason"])
        return found

    def by_slurm(self, rank, size=2, script=None, resume=False, **changes):
        """Starts one of the processes that srun would start."""
        variables = {
            "SLURM_PROCID": rank,
            "SLURM_NTASKS": size,
            "SLURM_LOCALID": rank,
            "SLURM_NTASKS_PER_NODE": size,
            "SLURM_JOB_NODELIST": "node[1-2]",
            "SLURM_JOB_ID": os.getpid(),
            "MASTER_PORT": self.port,
            **changes,
        }
        environment = dict(self.environment, **{name: str(value) for name, value in variables.items()})
        command = self.command(script) + (["--resume"] if resume else [])
        return subprocess.Popen(
            command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    port = free_ports(2)[0]


def end_of(process, limit=30):
    """Exit code, stdout and stderr of a process that must end in time."""
    try:
        out, error = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"no end within {limit} s: {process.communicate()}")
    return process.returncode, out, error


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def wait_for(condition, what, limit=20):
    end = time.monotonic() + limit
    while not condition():
        expect(time.monotonic() < end, what)
        time.sleep(0.02)


def workers_of(job):
    """Processes that run this job's worker."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if str(job.optrush.parent / "optrush-worker") in (process / "cmdline").read_text():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def expect_nothing_left(job):
    wait_for(lambda: not workers_of(job), f"a worker still runs: {workers_of(job)}", limit=10)
    left = [path for path in job.temporary.iterdir() if path.name.startswith("optrush")]
    expect(not left, f"the temporary folder has {left}")


RUNGS = [("good", 2), ("killed:1", 2), ("good again", 2), ("large", 4)]


def check_whole_job(job, code, out):
    expect(code != 0, "a rung failed")
    results = job.results()
    for word in ("base", "good"):
        expect(results[word][0] == "ok", f"{word}: {results[word]}")
    status, reason = results["killed"]
    expect(status in ("crashed", "oom") and reason.startswith("rank 1 (host ") and "killed" in reason, reason)
    expect("the last words" in reason, "the reason has the log of another process")
    status, reason = results["large"]
    expect(status == "skipped" and "it needs 4 ranks" in reason and "started 2" in reason, reason)
    good = job.report / "runs" / "01-good-r1" / "ranks"
    expect(json.loads((good / "1" / "result.json").read_text())["status"] == "ok", "rank 1's result arrived")
    expect(out.count("report.md") == 1, f"only rank 0 reports: {out}")
    question = json.loads((job.report / "experiment.json").read_text())["question"]
    expect(question == "2 ranks", question)
    hosts = json.loads((job.report / "context.json").read_text())["hosts"]
    expect([(host["name"], host["ranks"]) for host in hosts] == [(socket.gethostname(), [0, 1])], hosts)
    expect(f"| host {socket.gethostname()} | ranks 0 1" in (job.report / "report.md").read_text(), "it lists hosts")
    expect_nothing_left(job)


def torchrun(job):
    if not TORCHRUN.exists():
        skip(f"there is no {TORCHRUN}")
    launcher = [TORCHRUN, "--no-python", "--nproc-per-node=2", f"--master-port={job.port}"]
    process = subprocess.Popen(
        launcher + job.command(), env=job.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    code, out, error = end_of(process, limit=120)
    check_whole_job(job, code, out)


def mpirun(job):
    if shutil.which("mpirun") is None:
        skip("there is no mpirun: install openmpi-bin")
    environment = dict(job.environment, MASTER_PORT=str(job.port))
    # Tests may run as root and on machines with fewer cores than ranks.
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    launcher = ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none"]
    process = subprocess.Popen(
        launcher + job.command(), env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    code, out, error = end_of(process, limit=120)
    check_whole_job(job, code, out)


def srun(job):
    processes = [job.by_slurm(rank) for rank in range(2)]
    code, out, error = end_of(processes[0])
    check_whole_job(job, code, out)
    expect_same_code(processes[1], code)


def expect_same_code(agent, code):
    """A launcher gets the exit code of rank 0 on every machine."""
    its_code, out, error = end_of(agent)
    expect(its_code == code and out == "", (its_code, code, error))
    said = f"ends with exit code {code}" in error and "rank 1 (host " in error
    expect(said if code else error == "", error)


def late_rank(job):
    first = job.by_slurm(0)
    time.sleep(1)
    second = job.by_slurm(1)
    code, out, error = end_of(first)
    check_whole_job(job, code, out)
    end_of(second)


def other_script(job):
    other = job.write_script("other.lua", [("good", 2), ("more", 2)])
    processes = [job.by_slurm(0), job.by_slurm(1, script=other)]
    code, out, error = end_of(processes[0])
    expect(code == 1 and "it has a different script" in error, error)
    agent_code, out, error = end_of(processes[1])
    expect(agent_code == 1 and "it has a different script" in error and out == "", error)
    results = job.results()
    expect(results["base"][0] == "ok", "one rank is enough for it")
    expect(results["good"][0] == "failed" and "it has a different script" in results["good"][1], results["good"])


def other_size(job):
    processes = [job.by_slurm(0), job.by_slurm(1, size=3)]
    code, out, error = end_of(processes[0])
    expect(code == 1 and "rank 1 of 3, but rank 0 as one of 2" in error, error)
    expect(end_of(processes[1])[0] == 1, "it is refused")
    expect(job.results()["good"][0] == "failed", job.results())


def missing_rank(job):
    code, out, error = end_of(job.by_slurm(0, OPTRUSH_JOIN_TIMEOUT=1))
    expect("rank 1 of 2 did not join rank 0 at 127.0.0.1" in error and "firewall" in error, error)
    expect(job.results()["good"][0] == "failed" and "did not join" in job.results()["good"][1], job.results())


def no_rank_0(job):
    code, out, error = end_of(job.by_slurm(1, OPTRUSH_JOIN_TIMEOUT=1))
    expect(code == 1 and "there is no rank 0 at 127.0.0.1" in error, error)


def taken_port(job):
    """Another program accepts connections and sends nothing: the job uses its next port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", job.port + 1))
        taken.listen()
        processes = [job.by_slurm(rank) for rank in range(2)]
        code, out, error = end_of(processes[0])
        check_whole_job(job, code, out)
        end_of(processes[1])


def two_jobs(job):
    """Two jobs of one machine and port at the same time, with two secrets: the ranks of each find each other."""
    with tempfile.TemporaryDirectory() as folder:
        other = Job(folder, RUNGS)
        order = [(one, number, rank) for one, number in ((job, 7), (other, 8)) for rank in (1, 0)]
        processes = [one.by_slurm(rank, SLURM_JOB_ID=number) for one, number, rank in order]
        ends = [end_of(process, limit=60) for process in processes]
        check_whole_job(job, ends[1][0], ends[1][1])
        check_whole_job(other, ends[3][0], ends[3][1])
        expect("another job" not in ends[1][2] + ends[3][2], "no rank reports another job")


def made_secret(job):
    """The processes of a job without a secret make one, once, that only their user can read."""
    processes = [job.by_slurm(rank) for rank in range(2)]
    code, out, error = end_of(processes[0])
    check_whole_job(job, code, out)
    end_of(processes[1])
    (secret,) = (job.folder / "state" / "optimization-rush").iterdir()
    expect(secret.name == "job_secret" and secret.stat().st_mode & 0o777 == 0o600, secret)
    text = secret.read_text()
    told = [file for file in job.report.rglob("*") if file.is_file() and text in file.read_text(errors="replace")]
    expect(not told and text not in out + error, f"the secret is in {told}")


def given_secret(job):
    """A given secret needs no file, and no worker has it."""
    secret = "given for this test only"
    job.script = job.write_script("job.lua", [("slow", 2)])
    processes = [job.by_slurm(rank, OPTRUSH_JOB_SECRET=secret) for rank in range(2)]
    wait_for(lambda: job.started.exists() and "/1\n" in job.started.read_text(), "rank 1 starts")
    workers = workers_of(job)
    expect(workers, "the ranks run")
    for worker in workers:
        expect(secret not in pathlib.Path(f"/proc/{worker}/environ").read_text(), "a worker has the secret")
    for process in [*workers, *(process.pid for process in processes)]:
        expect(secret not in pathlib.Path(f"/proc/{process}/cmdline").read_text(), "everyone can read it")
    processes[0].send_signal(signal.SIGINT)
    end_of(processes[0])
    end_of(processes[1])
    expect(not (job.folder / "state").exists(), "no file is made")
    told = [file for file in job.report.rglob("*") if file.is_file() and secret in file.read_text(errors="replace")]
    expect(not told, f"the secret is in {told}")


def other_secret(job):
    """A rank with another secret gets nothing, and both sides name the cure."""
    limits = {"OPTRUSH_JOIN_TIMEOUT": 2, "OPTRUSH_CONTROL_PORT": job.port + 1}
    processes = [job.by_slurm(rank, OPTRUSH_JOB_SECRET=f"the secret of rank {rank}", **limits) for rank in range(2)]
    code, out, error = end_of(processes[1])
    expect(code == 1 and "is not rank 0 of this job: it has another secret" in error, error)
    expect("OPTRUSH_JOB_SECRET" in error and "the secret of rank" not in error, error)
    code, out, error = end_of(processes[0])
    expect(code == 1 and "rank 1 of 2 did not join" in error and "it has another secret" in error, error)
    expect("OPTRUSH_JOB_SECRET" in error and "the secret of rank" not in error, error)
    code, out, error = end_of(job.by_slurm(0, OPTRUSH_JOB_SECRET="too short"))
    expect(code == 1 and "has 9 bytes, but a secret needs 16 or more" in error, error)


def no_secret(job):
    """Without a place for a secret, a job of one machine runs and notes it. A job of several machines does not."""
    job.script = job.write_script("job.lua", [("good", 2)])
    nowhere = {"XDG_STATE_HOME": job.script}
    processes = [job.by_slurm(rank, **nowhere) for rank in range(2)]
    code, out, error = end_of(processes[0])
    expect(code == 0 and "this job has no secret, so any user of this machine may join it" in error, error)
    end_of(processes[1])
    code, out, error = end_of(job.by_slurm(0, SLURM_NTASKS_PER_NODE=1, **nowhere))
    expect(code == 1 and "no secret in common" in error and "export OPTRUSH_JOB_SECRET=" in error, error)


def taken_control_port(job):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", job.port + 1))
        taken.listen()
        code, out, error = end_of(job.by_slurm(0, OPTRUSH_CONTROL_PORT=job.port + 1))
    expect(code == 1 and f"port {job.port + 1}" in error and "OPTRUSH_CONTROL_PORT" in error, error)


def lost_agent(job):
    job.script = job.write_script("job.lua", [("talks", 2), ("good", 2)])
    processes = [job.by_slurm(rank) for rank in range(2)]
    wait_for(lambda: job.started.exists() and "/1\n" in job.started.read_text(), "rank 1 starts")
    time.sleep(1)  # rank 0 gets the output of the worker
    processes[1].kill()
    code, out, error = end_of(processes[0])
    status, reason = job.results()["talks"]
    lost = "was lost: the connection to it was closed, last seen after step 2 of"
    expect(status == "crashed" and lost in reason, reason)
    expect(reason.endswith("last lines of ranks/1/log.txt:\nsaid"), reason)
    log = job.report / "runs" / "01-talks-r1" / "ranks" / "1" / "log.txt"
    expect(log.read_text() == "said\n", "the log of a lost rank is kept")
    expect(job.results()["good"][0] == "failed", "it cannot have two ranks")
    expect_nothing_left(job)
    # A run that did not begin because a rank was missing is repeated. The other run has no state to continue from.
    processes = [job.by_slurm(rank, resume=True) for rank in range(2)]
    end_of(processes[0])
    end_of(processes[1])
    expect(job.results()["good"][0] == "ok" and job.results()["talks"] == (status, reason), job.results())


def lost_rank_0(job):
    job.script = job.write_script("job.lua", [("slow", 2)])
    processes = [job.by_slurm(rank) for rank in range(2)]
    wait_for(lambda: job.started.exists() and "/1\n" in job.started.read_text(), "rank 1 starts")
    processes[0].kill()
    code, out, error = end_of(processes[1], limit=10)
    expect(code == 1 and "the connection to rank 0" in error, error)
    wait_for(lambda: not workers_of(job), "a worker still runs", limit=10)
    end_of(job.by_slurm(0, resume=True, OPTRUSH_JOIN_TIMEOUT=1))
    expect_nothing_left(job)  # the next start has removed the files of rank 0


def signalled(job, word, signals):
    """Ends a job by [(seconds to wait, rank, signal)], and expects that only an interruption is recorded."""
    job.script = job.write_script("job.lua", [(word, 2)])
    processes = [job.by_slurm(rank) for rank in range(2)]
    wait_for(lambda: job.started.exists() and "/1\n" in job.started.read_text(), "rank 1 starts")
    for seconds, rank, number in signals:
        time.sleep(seconds)
        processes[rank].send_signal(number)
    code, out, error = end_of(processes[0])
    expect(code == 128 + signals[0][2], (code, error))
    expect("kept in" in error and "--resume" in error, error)
    expect_same_code(processes[1], code)
    run = f"01-{word.replace(':', '-')}-r1"
    expect(not (job.report / "runs" / run / "result.json").exists(), "an interrupted run has no result")
    events = [json.loads(line) for line in (job.report / "journal.jsonl").read_text().splitlines()]
    expect(events[-1]["event"] == "interrupted", events[-1])
    expect(not [event for event in events if event["event"] == "finished" and event["run"] == run], events)
    expect_nothing_left(job)
    return events[-1]["reason"], error


def signal_to_one_rank(job):
    """A signal to any one rank interrupts the whole job."""
    reason, error = signalled(job, "slow", [(0, 1, signal.SIGTERM)])
    expect("SIGTERM" in reason and "rank 1 (host " in reason, reason)
    for path in (job.started, job.folder / "reports"):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
    reason, error = signalled(job, "slow", [(0, 0, signal.SIGUSR1)])
    expect("SIGUSR1" in reason and "rank 1" not in reason, reason)


def late_signal(job):
    """The worker of rank 1 ends before rank 1's process gets the signal, and rank 0 gets it last."""
    signalled(job, "ended:1", [(0.3, 1, signal.SIGTERM), (0.3, 0, signal.SIGTERM)])


def second_signal(job):
    """An agent that does not end at the first signal ends at the second, and the job has its exit code."""
    job.script = job.write_script("job.lua", [("slow", 2)])
    processes = [job.by_slurm(rank) for rank in range(2)]
    wait_for(lambda: job.started.exists() and "/1\n" in job.started.read_text(), "rank 1 starts")
    processes[0].send_signal(signal.SIGSTOP)
    processes[1].send_signal(signal.SIGTERM)
    time.sleep(5)  # two seconds after it noticed the first one, which a loaded machine may delay
    processes[1].send_signal(signal.SIGTERM)
    code, out, error = end_of(processes[1], limit=10)
    expect(code == 143 and "a second signal" in error, (code, error))
    processes[0].send_signal(signal.SIGCONT)
    code, out, error = end_of(processes[0])
    expect(code == 143, (code, error))
    expect(not (job.report / "runs" / "01-slow-r1" / "result.json").exists(), "an interrupted run has no result")
    expect_nothing_left(job)


def failed_code(job):
    """The exit code is the same if rank 0 has no report, as for a script with an error."""
    (job.folder / "job.lua").write_text("local rush = require 'optrush'\nerror('no such thing')\n")
    processes = [job.by_slurm(rank) for rank in range(2)]
    code, out, error = end_of(processes[0])
    expect(code == 1 and "no such thing" in error, error)
    expect_same_code(processes[1], 1)


def interrupted(job):
    job.script = job.write_script("job.lua", [("slow", 2)])
    processes = [job.by_slurm(rank) for rank in range(2)]
    wait_for(lambda: job.started.exists() and "/1\n" in job.started.read_text(), "rank 1 starts")
    for process in processes:
        process.send_signal(signal.SIGINT)
    expect(end_of(processes[0])[0] == 130, "rank 0 has the exit code of an interruption")
    expect(end_of(processes[1], limit=10)[0] == 130, "the other rank ends too")
    expect((job.report / "report.md").exists(), "the report has the finished runs")
    expect(not (job.report / "runs" / "01-slow-r1" / "result.json").exists(), "an interrupted run has no result")
    expect_nothing_left(job)


def dry_run(job):
    processes = []
    for rank in range(2):
        environment = dict(job.environment, SLURM_PROCID=str(rank), SLURM_NTASKS="2", SLURM_LOCALID=str(rank))
        command = job.command() + ["--dry-run"]
        processes.append(
            subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        )
    code, out, error = end_of(processes[0])
    expect(code == 0 and "job: 5 variants" in out, out + error)
    expect(end_of(processes[1]) == (0, "", ""), "only rank 0 prints it")


def main():
    with tempfile.TemporaryDirectory() as folder:
        globals()[sys.argv[1]](Job(folder, RUNGS))


main()
