"""The small experiments that faults hit, their undisturbed results, and how they start."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

BUILD = pathlib.Path(os.environ.get("OPTRUSH_BUILD_DIR", pathlib.Path(__file__).resolve().parents[2] / "build"))
OPTRUSH = BUILD / "bin" / "optrush"
MARK = "OPTRUSH_FAULT_CAMPAIGN"
HANG = 600  # seconds: a hundred times the duration of a command on a quiet machine, because this one may be shared

HEAD = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "NAME",
  model = rush.llama { dim = 32, n_layers = 1, n_heads = 2, n_kv_heads = 2, ffn_dim = 64, vocab_size = 64 },
  data = rush.tokens "tokens.bin",
  train = { steps = 3, warmup = 1, seq_len = 16, accumulation = 2 },
  device = "cpu", threads = 1, timeout = 40,
}
"""
SCRIPTS = {
    "ladder": """exp:ladder { rush.rung("lora", "lora"), rush.rung("fused", "fused_adamw") }
exp:run({ rounds = 2, interleave = false }):report()""",
    "ranks": """exp:ladder { rush.rung("two", "ddp", {}, { train = { world_size = 2, accumulation = 1 } }) }
exp:run({ rounds = 2, interleave = false }):report()""",
    "turns": """exp:ladder { rush.rung("fused", "fused_adamw") }
exp:run({ rounds = 2, interleave = true }):report()""",
    "external": """exp:ladder {
  rush.external { name = "program", effect = "model", command = { "PYTHON", "-I", "-S", "program.py" } },
  rush.rung("fused", "fused_adamw"),
}
exp:run({ rounds = 2, interleave = false }):report()""",
    "plugin": """exp:ladder {
  rush.rung("bad", "misbehaves", { how = rush.arg("how", "nothing") }),
  rush.rung("good", "fused_adamw", {}, { over = "base" }),
}
exp:run({ rounds = 1, interleave = false }):report()""",
}
PROGRAM = '''import json, os, time
train = json.load(open(os.environ["OPTRUSH_SPEC"]))["train"]
time.sleep(0.2)
steps = [{"step": i, "timed": i >= train["warmup"], "loss": 4.0 - 0.1 * i, "grad_norm": 1.0, "tokens": 32,
          "seconds": 0.02, "phases": {}}
         for i in range(train["warmup"] + train["steps"])]
with open(os.environ["OPTRUSH_OUT"], "w") as out:
    json.dump({"schema_version": 1, "status": "ok", "reason": "", "steps": steps, "tokens_per_second": 1600.0,
               "step_seconds": 0.02}, out)
'''


def tokens():
    values = [i * i % 61 for i in range(2000)]
    head = b"ORTOKENS" + b"".join(v.to_bytes(4, "little") for v in (1, 2, 64, 0)) + len(values).to_bytes(8, "little")
    return head + b"".join(v.to_bytes(2, "little") for v in values)


def start(command, mark, environment=None, **options):
    """Starts the command in a new session. The mark identifies its processes in any group or session."""
    values = dict(os.environ, OMP_NUM_THREADS="1", **(environment or {}))
    values[MARK] = mark
    return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env=values, start_new_session=True, **options)


class Ended:
    def __init__(self, process, limit=HANG):
        try:
            out, _ = process.communicate(timeout=limit)
            self.hangs = False
        except subprocess.TimeoutExpired:
            self.hangs = True
            os.killpg(process.pid, 9)
            out, _ = process.communicate()
        self.code = process.returncode
        self.text = out.decode(errors="replace")


class Scene:
    """One experiment in a folder: its script, its input files and its reports."""

    def __init__(self, name, folder):
        self.name, self.folder = name, pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.script = self.folder / f"{name}.lua"
        self.script.write_text(HEAD.replace("NAME", name) + SCRIPTS[name].replace("PYTHON", sys.executable) + "\n")
        (self.folder / "tokens.bin").write_bytes(tokens())
        (self.folder / "program.py").write_text(PROGRAM)
        self.report = self.folder / "reports" / name / "local"

    def command(self, *more):
        return [OPTRUSH, "run", self.script, "--out", self.folder / "reports",
                "--plugin-path", BUILD / "tests" / "plugins", "--resume", *more]

    def run(self, mark, *more, **options):
        return Ended(start(self.command(*more), mark, **options))

    def fresh(self, reference):
        """Removes everything but the measurements of the machine, which take ten seconds."""
        shutil.rmtree(self.folder / "reports", ignore_errors=True)
        self.report.mkdir(parents=True)
        shutil.copy(reference.context, self.report)

    def results(self):
        found = {}
        for path in sorted((self.report / "runs").glob("*/result.json")):
            try:
                found[path.parent.name] = (path.read_bytes(), json.loads(path.read_bytes()))
            except (OSError, ValueError):
                continue
        return found

    def journal(self):
        path = self.report / "journal.jsonl"
        lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
        entries = []
        for line in lines:
            try:
                entries.append(json.loads(line))
            except ValueError:
                continue
        return [entry for entry in entries if isinstance(entry, dict)]


class Reference:
    """A scene without faults, run once."""

    def __init__(self, scene, context=None):
        self.scene = scene
        self.context = scene.report / "context.json"
        if not (scene.report / "results.json").exists():
            if context is not None:
                scene.report.mkdir(parents=True, exist_ok=True)
                shutil.copy(context, scene.report)
            begin = time.monotonic()
            end = scene.run("reference")
            assert end.code == 0, (scene.name, end.code, end.text)
            (scene.folder / "seconds").write_text(str(time.monotonic() - begin))
        self.seconds = min(12.0, float((scene.folder / "seconds").read_text()))
