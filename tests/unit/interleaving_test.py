"""Interleaved runs with real workers train as they do alone, rank by rank, and an external program takes part."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"])
SCRIPT = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "turns",
  model = rush.llama("nano"),
  data = rush.random(),
  threads = 1,
  train = { micro_batch = 2, seq_len = 16, steps = 8, warmup = 2 },
}
exp:ladder {
  rush.rung("checkpointing", "activation_checkpointing", { policy = "full" }),
  rush.rung("two ranks", "ddp", {}, { train = { world_size = 2 } }),
  rush.external {
    name = "program", command = { "%s", "program.py", "{out}" }, interleave = true, train = { world_size = 1 },
  },
}
exp:run():report()
"""
PROGRAM = """
import json, sys, time
from optimization_rush.interleaving import Interleaving
turns = Interleaving()
assert turns.stream is not None or "alone" in sys.argv
steps, seconds = [], 0.0
for number in range(10):
    timed = number >= 2 and turns.step(seconds)
    start = time.perf_counter()
    time.sleep(0.01)
    seconds = time.perf_counter() - start
    steps.append({"step": number, "timed": timed, "loss": 6 - 0.1 * number, "grad_norm": None, "tokens": 32,
                  "seconds": seconds, "phases": {}})
with open(sys.argv[1], "w") as out:
    result = {"schema_version": 1, "status": "ok", "reason": "", "tokens_per_second": 32 / seconds, "steps": steps}
    json.dump(result, out)
"""


def run(label, *options):
    command = [BUILD / "bin/optrush", "run", "turns.lua", "--rounds", "1", "--device", "cpu", "--label", label,
               *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=work)
    assert done.returncode in (0, 1) and "error" not in done.stderr, done.stdout + done.stderr
    runs = {path.parent.name: json.loads(path.read_text())
            for path in work.glob(f"reports/turns/{label}/runs/*/result.json")}
    for name, result in runs.items():
        assert result["status"] == "ok", f"{name}: {result['reason']}\n{done.stdout}{done.stderr}"
    return runs, (work / f"reports/turns/{label}/report.md").read_text()


def curve(result):
    return [(step["step"], step["loss"], step["grad_norm"]) for step in result["steps"]]


def timed_steps(result):
    return [step["step"] for step in result["steps"] if step["timed"]]


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    (work / "turns.lua").write_text(SCRIPT % sys.executable)
    (work / "program.py").write_text(PROGRAM)
    alone, text = run("alone", "--interleave", "off", "--only", "checkpointing", "--only", "two ranks")
    assert not any("turns" in result for result in alone.values())
    assert "interleaved step by step" not in text
    # The peak of a nano model is predicted and fits, so its runs are interleaved by default. ddp has no prediction.
    together, text = run("together", "--interleave", "on")
    measured = {name: result for name, result in together.items() if name.endswith("-r1")}
    assert len(measured) == 4 and len({result["turns"] for result in measured.values()}) == 1, measured.keys()
    assert "turns" not in together["00-base-drift"]
    assert "interleaved step by step" in text, text
    for name in ("00-base-r1", "01-checkpointing-r1", "02-two-ranks-r1"):
        assert curve(together[name]) == curve(alone[name]), f"{name} trains differently when interleaved"
        assert timed_steps(alone[name]) == list(range(2, 10))
        # Steps of a nano model are short: two in a turn, and the first of them is not timed.
        assert timed_steps(together[name]) == [3, 5, 7, 9], timed_steps(together[name])
    assert timed_steps(together["03-program-r1"]) == [3, 5, 7, 9]
    chosen, text = run("chosen", "--only", "checkpointing")
    assert chosen["00-base-r1"]["turns"] == chosen["01-checkpointing-r1"]["turns"], "automatically on a CPU"
    assert "All rungs were interleaved step by step" in text
    print("ok")
