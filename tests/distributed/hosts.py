"""Two hosts on one machine: network namespaces joined by a veth pair. A token bucket (tc tbf) may limit its speed.

Each host's ranks run `optrush run` with torchrun's variables, as on two machines.
"""

import json
import os
import pathlib
import subprocess
import tempfile

BUILD = pathlib.Path(os.environ.get("OPTRUSH_BUILD_DIR", pathlib.Path(__file__).resolve().parents[2] / "build"))
PORT = 29700


class NotAllowed(Exception):
    """This machine allows no network namespaces; the text gives the reason."""


def run(*command):
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True)
    if done.returncode != 0:
        raise NotAllowed(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.returncode}")
    return done.stdout


class Hosts:
    """with Hosts(mbit=200) as hosts: hosts.train(script, ranks_per_host=2)"""

    def __init__(self, mbit=None):
        self.mbit = mbit
        self.names = [f"optrush-{os.getpid()}-{host}" for host in "ab"]
        self.links = [f"v{os.getpid() % 10**8}{host}" for host in "ab"]
        self.addresses = ["10.77.0.1", "10.77.0.2"]

    def __enter__(self):
        try:
            for name in self.names:
                run("ip", "netns", "add", name)
            run("ip", "link", "add", self.links[0], "type", "veth", "peer", "name", self.links[1])
            for name, link, address in zip(self.names, self.links, self.addresses):
                run("ip", "link", "set", link, "netns", name)
                run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", link)
                run("ip", "-n", name, "link", "set", link, "up")
                run("ip", "-n", name, "link", "set", "lo", "up")
                if self.mbit:
                    limit = ["rate", f"{self.mbit}mbit", "burst", "256kb", "latency", "300ms"]
                    run("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", link, "root", "tbf", *limit)
        except (NotAllowed, OSError) as error:
            self.__exit__()
            raise NotAllowed(str(error)) from None
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def sent_bytes(self):
        """The total of both hosts on the link between them."""
        total = 0
        for name, link in zip(self.names, self.links):
            (counters,) = json.loads(run("ip", "-n", name, "-s", "-j", "link", "show", "dev", link))
            total += counters["stats64"]["tx"]["bytes"]
        return total

    def train(self, script, ranks_per_host, reports, label="local", timeout=300):
        """Runs a script on all ranks and returns the folder of its report. An exception has the output of all ranks."""
        ranks = []
        size = 2 * ranks_per_host
        for rank in range(size):
            host, local = divmod(rank, ranks_per_host)
            environment = dict(
                os.environ,
                RANK=str(rank),
                WORLD_SIZE=str(size),
                LOCAL_RANK=str(local),
                LOCAL_WORLD_SIZE=str(ranks_per_host),
                MASTER_ADDR=self.addresses[0],
                MASTER_PORT=str(PORT),
                GLOO_SOCKET_IFNAME=self.links[host],
                OMP_NUM_THREADS="1",
            )
            command = ["ip", "netns", "exec", self.names[host], BUILD / "bin" / "optrush", "run", script]
            command += ["--device", "cpu", "--threads", "1", "--out", reports, "--label", label]
            ranks.append(
                subprocess.Popen(
                    command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
                )
            )
        try:
            output = [rank.communicate(timeout=timeout)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        if ranks[0].returncode != 0:
            raise RuntimeError("\n".join(output))
        return next(pathlib.Path(reports).glob(f"*/{label}"))


def result_of(report, rung):
    """result.json of a rung's first round."""
    (file,) = report.glob(f"runs/*-{rung}-r1/result.json")
    return json.loads(file.read_text())


def script_with(folder, name, rungs, steps, micro_batch=2, dim=128, rounds=1):
    """Writes an experiment file with these rungs; each rung is Lua text."""
    path = pathlib.Path(folder) / f"{name}.lua"
    path.write_text(
        f"""local rush = require "optrush"
local exp = rush.experiment {{
  name = "{name}",
  model = rush.llama("nano", {{ dim = {dim}, n_layers = 4, ffn_dim = {3 * dim} }}),
  data = rush.random(),
  train = {{ micro_batch = {micro_batch}, seq_len = 64, steps = {steps}, warmup = 2 }},
}}
exp:ladder {{ {", ".join(rungs)} }}
exp:run {{ rounds = {rounds} }}
"""
    )
    return path


def temporary_folder():
    return tempfile.TemporaryDirectory(prefix="optrush-hosts-")
