"""The same script under torchrun, mpirun and with srun's variables: rank 0 reports, the others follow, and whatever
goes wrong with one of them ends in its row, in bounded time, with nothing left running.

    launchers_test.py CASE: torchrun, mpirun, or one of the functions below; a fake worker trains.
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

BUILD = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"])
HERE = pathlib.Path(__file__).resolve().parent
TORCHRUN = pathlib.Path(sys.prefix) / "bin" / "torchrun"
MASTER_VARIABLES = ("MASTER_ADDR", "MASTER_PORT")


def skip(reason):
    print(reason)
    sys.exit(77)


def free_ports():
    """The first of two ports in a row that nobody listens at; tests beside this one start elsewhere."""
    for port in range(20000 + os.getpid() % 5000 * 2, 32000, 2):
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
                return port
            except OSError:
                continue


class Job:
    """A folder with a script, and an installation whose worker is the fake one."""

    def __init__(self, folder, rungs):
        self.folder = pathlib.Path(folder)
        binaries = self.folder / "installation" / "bin"
        binaries.mkdir(parents=True)
        shutil.copy(BUILD / "bin" / "optrush", binaries)
        shutil.copy(BUILD / "installation.json", binaries.parent)
        shutil.copy(HERE / "fake_worker.py", binaries / "optrush-worker")
        self.optrush = binaries / "optrush"
        self.script = self.write_script("job.lua", rungs)
        self.shared = self.folder / "shared"
        self.shared.mkdir()
        self.started = self.folder / "started"
        self.temporary = self.folder / "temporary"
        self.temporary.mkdir()
        self.environment = dict(os.environ, FAKE_RANKS_FOLDER=str(self.shared), FAKE_WORKER_STARTS=str(self.started),
                                TMPDIR=str(self.temporary))
        for name in MASTER_VARIABLES:
            self.environment.pop(name, None)

    def write_script(self, name, rungs):
        script = self.folder / name
        lines = [f'rush.rung("{word}", {{ train = {{ world_size = {size} }} }}),' for word, size in rungs]
        script.write_text(
            'local rush = require "optrush"\n'
            'local exp = rush.experiment { name = "job", model = rush.llama "nano", question = rush.ranks() .. " ranks" }\n'
            "exp:ladder {\n" + "\n".join(lines) + "\n}\nexp:run({ rounds = 1 }):report()\n"
        )
        return script

    def command(self, script=None):
        return [self.optrush, "run", script or self.script, "--out", self.folder / "reports"]

    @property
    def report(self):
        return self.folder / "reports" / "job" / "local"

    def results(self):
        """Status and reason of each run, by the word of its rung."""
        found = {}
        for run in sorted(self.report.glob("runs/*-r1")):
            result = json.loads((run / "result.json").read_text())
            found[run.name.split("-")[1]] = (result["status"], result["reason"])
        return found

    def by_slurm(self, rank, size=2, script=None, resume=False, **changes):
        """One of the processes that srun would start."""
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
        return subprocess.Popen(
            self.command(script) + (["--resume"] if resume else []), env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    port = free_ports()


def end_of(process, limit=30):
    """Exit code, stdout and stderr of a process that ends in time."""
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
    wait_for(lambda: not workers_of(job), f"a worker is left: {workers_of(job)}", limit=10)
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
    expect("the last words" in reason, "the log of another process is told")
    status, reason = results["large"]
    expect(status == "skipped" and "it needs 4 ranks" in reason and "started 2" in reason, reason)
    good = job.report / "runs" / "01-good-r1" / "ranks"
    expect(json.loads((good / "1" / "result.json").read_text())["status"] == "ok", "rank 1's result came")
    expect(out.count("report.md") == 1, f"rank 0 alone reports: {out}")
    question = json.loads((job.report / "experiment.json").read_text())["question"]
    expect(question == "2 ranks", question)
    hosts = json.loads((job.report / "context.json").read_text())["hosts"]
    expect([(host["name"], host["ranks"]) for host in hosts] == [(socket.gethostname(), [0, 1])], hosts)
    expect(f"| host {socket.gethostname()} | ranks 0 1" in (job.report / "report.md").read_text(), "hosts are told")
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
    # As root, with more ranks than cores, on whatever machine tests run.
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


def expect_same_code(follower, code):
    """A launcher learns on every machine how rank 0 ended."""
    its_code, out, error = end_of(follower)
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
    follower_code, out, error = end_of(processes[1])
    expect(follower_code == 1 and "it has a different script" in error and out == "", error)
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
    """By a program that takes connections and says nothing: the job goes on to its next port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", job.port + 1))
        taken.listen()
        processes = [job.by_slurm(rank) for rank in range(2)]
        code, out, error = end_of(processes[0])
        check_whole_job(job, code, out)
        end_of(processes[1])


def two_jobs(job):
    """Of one machine and port, at once: each finds its own."""
    with tempfile.TemporaryDirectory() as folder:
        other = Job(folder, RUNGS)
        processes = [one.by_slurm(rank, SLURM_JOB_ID=number) for one, number in ((job, 7), (other, 8)) for rank in (1, 0)]
        ends = [end_of(process, limit=60) for process in processes]
        check_whole_job(job, ends[1][0], ends[1][1])
        check_whole_job(other, ends[3][0], ends[3][1])
        expect("another job" not in ends[1][2] + ends[3][2], "nothing is wrong with it")


def taken_control_port(job):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", job.port + 1))
        taken.listen()
        code, out, error = end_of(job.by_slurm(0, OPTRUSH_CONTROL_PORT=job.port + 1))
    expect(code == 1 and f"port {job.port + 1}" in error and "OPTRUSH_CONTROL_PORT" in error, error)


def lost_follower(job):
    job.script = job.write_script("job.lua", [("talks", 2), ("good", 2)])
    processes = [job.by_slurm(rank) for rank in range(2)]
    wait_for(lambda: job.started.exists() and "/1\n" in job.started.read_text(), "rank 1 starts")
    time.sleep(1)  # what its worker says is told
    processes[1].kill()
    code, out, error = end_of(processes[0])
    status, reason = job.results()["talks"]
    expect(status == "crashed" and "was lost: the connection to it was closed, last seen after step 2 of" in reason, reason)
    expect(reason.endswith("last lines of ranks/1/log.txt:\nsaid"), reason)
    log = job.report / "runs" / "01-talks-r1" / "ranks" / "1" / "log.txt"
    expect(log.read_text() == "said\n", "the log of a lost rank is kept")
    expect(job.results()["good"][0] == "failed", "it can't have two ranks")
    expect_nothing_left(job)
    # A run that was not begun for want of a rank is a missing one; the other one has no state to go on from.
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
    wait_for(lambda: not workers_of(job), "a worker is left", limit=10)
    end_of(job.by_slurm(0, resume=True, OPTRUSH_JOIN_TIMEOUT=1))
    expect_nothing_left(job)  # the next one has removed what rank 0 left


def signalled(job, word, signals):
    """Ends a job by [(seconds to wait, rank, signal)], and expects that nothing but an interruption is recorded."""
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


def signal_heard_by_one(job):
    """Whichever rank it is: the whole job is interrupted."""
    reason, error = signalled(job, "slow", [(0, 1, signal.SIGTERM)])
    expect("SIGTERM" in reason and "rank 1 (host " in reason, reason)
    for path in (job.started, job.folder / "reports"):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
    reason, error = signalled(job, "slow", [(0, 0, signal.SIGUSR1)])
    expect("SIGUSR1" in reason and "rank 1" not in reason, reason)


def signal_heard_late(job):
    """Its worker is ended before rank 1's process hears of it, and rank 0 after that."""
    signalled(job, "ended:1", [(0.3, 1, signal.SIGTERM), (0.3, 0, signal.SIGTERM)])


def signal_insists(job):
    """A follower that is not ended ends by a second signal; what it says is the job's end all the same."""
    job.script = job.write_script("job.lua", [("slow", 2)])
    processes = [job.by_slurm(rank) for rank in range(2)]
    wait_for(lambda: job.started.exists() and "/1\n" in job.started.read_text(), "rank 1 starts")
    processes[0].send_signal(signal.SIGSTOP)
    processes[1].send_signal(signal.SIGTERM)
    time.sleep(2.5)
    processes[1].send_signal(signal.SIGTERM)
    code, out, error = end_of(processes[1], limit=10)
    expect(code == 143 and "a second signal" in error, (code, error))
    processes[0].send_signal(signal.SIGCONT)
    code, out, error = end_of(processes[0])
    expect(code == 143, (code, error))
    expect(not (job.report / "runs" / "01-slow-r1" / "result.json").exists(), "an interrupted run has no result")
    expect_nothing_left(job)


def failed_code(job):
    """Also where rank 0 has no report: a script that can't be read."""
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
    expect(end_of(processes[0])[0] == 130, "rank 0 says that it was interrupted")
    expect(end_of(processes[1], limit=10)[0] == 130, "the other one ends, too")
    expect((job.report / "report.md").exists(), "what is done is reported")
    expect(not (job.report / "runs" / "01-slow-r1" / "result.json").exists(), "an interrupted run has no result")
    expect_nothing_left(job)


def dry_run(job):
    processes = []
    for rank in range(2):
        environment = dict(job.environment, SLURM_PROCID=str(rank), SLURM_NTASKS="2", SLURM_LOCALID=str(rank))
        processes.append(
            subprocess.Popen(job.command() + ["--dry-run"], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        )
    code, out, error = end_of(processes[0])
    expect(code == 0 and "job: 5 variants" in out, out + error)
    expect(end_of(processes[1]) == (0, "", ""), "rank 0 alone shows it")


def main():
    with tempfile.TemporaryDirectory() as folder:
        globals()[sys.argv[1]](Job(folder, RUNGS))


main()
