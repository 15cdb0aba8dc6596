"""A SLURM cluster of two nodes on this machine, made of Debian's daemons: with Cluster(folder) as cluster: ...

It needs root (slurmd) and the packages slurmctld, slurmd, slurm-client and munge. All its files are in `folder`.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from ports import free_ports  # noqa: E402

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol")
CONFIGURATION = """
ClusterName=optrush{number}
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=10
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1,requeue_delay=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
JobRequeue=1
KillWait=30
NodeName=127.0.0.[2-3] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[2]}] CPUs=8 Boards=1 \
SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class NotHere(Exception):
    """This machine cannot run the cluster; the text gives the reason."""


def search_path():
    """Debian installs the daemons in folders that only root's shells search."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


class Cluster:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        missing = [name for name in PROGRAMS if shutil.which(name, path=search_path()) is None]
        if missing:
            raise NotHere(f"there is no {missing[0]}: install slurmctld, slurmd, slurm-client and munge")
        if os.geteuid() != 0:
            raise NotHere("slurmd needs root")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        self.environment.update(SLURM_CONF=str(self.folder / "slurm.conf"), PATH=search_path())

    def run(self, *command, check=True, **variables):
        done = subprocess.run([str(word) for word in command], env=dict(self.environment, **variables), text=True,
                              capture_output=True, timeout=100)
        if check and done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
        return done

    def __enter__(self):
        try:
            munge = self.folder / "munge"
            for path in (self.folder, munge, self.folder / "state"):
                path.mkdir(exist_ok=True)
                path.chmod(0o755)
            (munge / "key").write_bytes(os.urandom(1024))
            (munge / "key").chmod(0o400)
            text = CONFIGURATION.format(folder=self.folder, ports=free_ports(3), number=os.getpid())
            (self.folder / "slurm.conf").write_text(text)
            self.run("munged", "--force", f"--key-file={munge}/key", f"--socket={munge}/socket",
                     f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed")
            self.run("slurmctld", "-i")
            for node in ("127.0.0.2", "127.0.0.3"):
                self.run("slurmd", "-N", node)
            idle = ("sinfo", "-h", "-t", "idle", "-o", "%D")
            self.wait_for(lambda: "2" in self.run(*idle, check=False).stdout, "idle nodes")
        except Exception as error:
            logs = "\n".join(file.read_text()[-500:] for file in sorted(self.folder.glob("*.log")))
            self.__exit__()
            raise NotHere(f"the daemons do not start here: {error}\n{logs}") from error
        return self

    def __exit__(self, *_):
        self.run("scancel", "--full", "--signal=KILL", "--user=root", check=False)
        files = [*self.folder.glob("slurm*.pid"), self.folder / "munge" / "pid"]
        for file in files:
            try:
                process = int(file.read_text())
                proc = pathlib.Path(f"/proc/{process}")
                os.kill(process, signal.SIGTERM)
                self.wait_for(lambda proc=proc: not proc.exists(), "its end", limit=10)
            except (OSError, ValueError, AssertionError):
                continue

    @staticmethod
    def wait_for(condition, what, limit=60):
        end = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < end, f"no {what} within {limit} s"
            time.sleep(0.05)

    def state(self, job):
        words = self.run("scontrol", "--oneliner", "show", "job", job).stdout.split()
        return next(word.removeprefix("JobState=") for word in words if word.startswith("JobState="))

    def limit(self, job, minutes):
        """Sets the job's time limit to the time that it has run plus `minutes`."""
        days, _, clock = self.run("squeue", "-h", "-j", job, "-o", "%M").stdout.strip().rpartition("-")
        taken = 0
        for part in clock.split(":"):
            taken = 60 * taken + int(part)
        taken += 86400 * int(days or 0)
        self.run("scontrol", "update", f"JobId={job}", f"TimeLimit={taken // 60 + minutes}")
