"""One script of two ranks trains the same model whether optrush, torchrun or mpirun starts its ranks.

Where a rank is killed or stopped, the run's row names it, and no process stays.

    launchers_test.py CASE: here, torchrun, mpirun, killed, stopped, pipeline_killed, pipeline_stopped or
        wrong_collective.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from ports import free_ports  # noqa: E402

OPTRUSH = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]) / "bin" / "optrush"
# A sanitizer would end a crashing process in its own way.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0"
TORCHRUN = pathlib.Path(sys.prefix) / "bin" / "torchrun"
SCRIPT = """
local rush = require "optrush"
local exp = rush.experiment {{
  name = "ranks",
  model = rush.llama {{ dim = 32, n_layers = 2, n_heads = 2, n_kv_heads = 2, ffn_dim = 64, vocab_size = 64 }},
  train = {{ steps = 3, warmup = 1, seq_len = 16, accumulation = 4 }},
  device = "cpu",
}}
exp:ladder {{ rush.rung("two", "{plugin}", {{}}, {{ train = {{ world_size = 2, steps = {steps} }} }}) }}
exp:run({{ rounds = 1 }}):report()
"""


def skip(reason):
    print(reason)
    sys.exit(77)


def data_parallel_plugin():
    """The data-parallel plugin of this build."""
    listed = subprocess.run([OPTRUSH, "plugins"], capture_output=True, text=True, check=True).stdout
    for name in ("ddp", "fsdp"):
        if name in listed:
            return name
    skip("this build has no plugin for data parallelism")


class Run:
    def __init__(self, folder, steps=3, plugin=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        script = self.folder / "ranks.lua"
        script.write_text(SCRIPT.format(plugin=plugin or data_parallel_plugin(), steps=steps))
        self.command = [OPTRUSH, "run", script, "--out", self.folder / "reports"]
        self.run = self.folder / "reports" / "ranks" / "local" / "runs" / "01-two-r1"

    def by(self, *launcher, **variables):
        """Runs the script to its end and returns the losses."""
        environment = dict(os.environ, XDG_STATE_HOME=str(self.folder / "state"), **variables)
        done = subprocess.run([*launcher, *self.command], capture_output=True, text=True, env=environment, timeout=150)
        assert (self.run / "result.json").exists(), (done.stdout, done.stderr)
        result = self.result()
        assert result["status"] == "ok", (result, done.stdout, done.stderr)
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert [row["rank"] for row in result["ranks"]] == [0, 1], result["ranks"]
        return [step["loss"] for step in result["steps"]]

    def result(self):
        return json.loads((self.run / "result.json").read_text())

    def workers(self):
        """{rank: process id} of the ranks that are alive."""
        found = {}
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_text().split("\0")
            except OSError:
                continue
            if "--rank" in words and str(self.run / "spec.json") in words:
                found[int(words[words.index("--rank") + 1])] = int(process.name)
        return found


def same_as_here(folder, *launcher, **variables):
    expected = Run(folder / "here").by()
    assert Run(folder / "launched").by(*launcher, **variables) == expected, "the launcher changes nothing"


def here(folder):
    run = Run(folder / "here")
    losses = run.by()
    repeat = [OPTRUSH, "worker", "--spec", run.run / "spec.json"]
    repeated = subprocess.run(repeat, capture_output=True, text=True, timeout=150)
    assert repeated.returncode == 0, repeated.stderr
    assert [step["loss"] for step in json.loads(repeated.stdout)["steps"]] == losses, "a run can be repeated alone"


def torchrun(folder):
    if not TORCHRUN.exists():
        skip(f"there is no {TORCHRUN}")
    # Another test may use the port after torchrun's own.
    port = str(free_ports(2)[1])
    launcher = (TORCHRUN, "--no-python", "--standalone", "--nproc-per-node=2")
    same_as_here(folder, *launcher, OPTRUSH_CONTROL_PORT=port)


def mpirun(folder):
    if shutil.which("mpirun") is None:
        skip("there is no mpirun: install openmpi-bin")
    # Tests may run as root and on machines with fewer cores than ranks.
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    port = str(free_ports(2)[0])
    same_as_here(folder, "mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", MASTER_PORT=port, **allowed)


def result_after_signal(number, folder, plugin=None):
    """The result of a run whose rank 1 gets a signal while it trains."""
    run = Run(folder, steps=1_000_000, plugin=plugin)
    environment = dict(os.environ, OPTRUSH_COLLECTIVE_TIMEOUT="4")
    controller = subprocess.Popen(run.command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        metrics = run.run / "ranks" / "1" / "metrics.jsonl"
        end = time.monotonic() + 100
        while not (metrics.exists() and '"step"' in metrics.read_text()):
            assert time.monotonic() < end and controller.poll() is None, "the run starts to train"
            time.sleep(0.05)
        os.kill(run.workers()[1], number)
        start = time.monotonic()
        while not (run.run / "result.json").exists():
            assert time.monotonic() < start + 60, "the run ends"
            time.sleep(0.05)
        assert run.workers() == {}, "no worker stays"
    finally:
        controller.send_signal(signal.SIGINT)
        controller.wait(timeout=60)
    return run.result()


def killed(folder, plugin=None):
    result = result_after_signal(signal.SIGSEGV, folder / "run", plugin)
    assert result["status"] == "crashed" and result["rank"] == 1, result
    assert result["reason"].startswith("rank 1 (host ") and "SIGSEGV" in result["reason"], result["reason"]
    assert "after step" in result["reason"], result["reason"]


def stopped(folder, plugin=None):
    result = result_after_signal(signal.SIGSTOP, folder / "run", plugin)
    assert result["status"] == "timeout" and result["rank"] == 1, result
    assert "rank 1 (host " in result["reason"] and "did not reach" in result["reason"], result["reason"]


def pipeline_killed(folder):
    killed(folder, "pipeline_parallel")


def pipeline_stopped(folder):
    stopped(folder, "pipeline_parallel")


WRONG = """
local rush = require "optrush"
local exp = rush.experiment {{
  name = "wrong",
  model = rush.llama {{ dim = 32, n_layers = 2, n_heads = 2, n_kv_heads = 2, ffn_dim = 64, vocab_size = 64 }},
  train = {{ steps = 4, warmup = 1, seq_len = 16, world_size = 2 }},
  plugins = {{ "{plugin}" }},
  device = "cpu",
  save = {{ every = 1 }},
}}
local rungs = {{}}
for i, how in ipairs {{ "type", "view", "gaps", "size", "unequal" }} do
  rungs[i] = rush.rung(how, "wrong_collective", {{ how = how }})
end
exp:grid {{ wrong = rungs }}
exp:run {{ rounds = 1, max_restarts = 2 }}
"""


def wrong_collective(folder):
    """A plugin's own error in a collective names the plugin. It is no lost rank, so nothing starts again."""
    script = folder / "wrong.lua"
    script.write_text(WRONG.format(plugin=data_parallel_plugin()))
    plugins = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]) / "tests" / "collectives"
    command = [OPTRUSH, "run", script, "--out", folder / "reports", "--plugin-path", plugins]
    environment = dict(os.environ, OPTRUSH_COLLECTIVE_TIMEOUT="20")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=250)
    assert done.returncode == 1, (done.stdout, done.stderr)
    report = folder / "reports" / "wrong" / "local"
    for how in ("type", "view", "gaps", "size", "unequal"):
        (file,) = report.glob(f"runs/*{how}*-r1/result.json")
        result = json.loads(file.read_text())
        assert result["status"] == "failed" and result.get("cause") is None, (how, result)
        assert result["code"] != "rank_lost" and "lost a rank" not in result["reason"], (how, result)
        named = "another size" if how == "unequal" else "plugin 'wrong_collective'"
        assert named in result["reason"] + result.get("where", ""), (how, result)
    assert "restart" not in (report / "journal.jsonl").read_text(), "the same error would come again"
    assert list(report.glob("runs/*/rank_ends.jsonl")), "each failure has the ends of its ranks"


def main():
    with tempfile.TemporaryDirectory() as folder:
        globals()[sys.argv[1]](pathlib.Path(folder))


main()
