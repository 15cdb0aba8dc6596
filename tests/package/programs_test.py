"""Programs with the package's lines train as external rungs: a loop, transformers' Trainer, two ranks that torchrun
starts, a program that prints.

Without the host they train as they do without these lines."""
import os
import re
import subprocess
import sys

from support import SOURCE, folder_of_programs, rung, run

try:
    import transformers
except ImportError:
    sys.exit(77)
assert transformers


def alone(work, program, steps):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE / "scripts/python")}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, cwd=work, env=environment)
    assert done.returncode == 0 and f"steps: {steps}\n" in done.stdout, done.stdout + done.stderr


with folder_of_programs() as work:
    printing = rung("printing", "-m", "optimization_rush.logs", "--form", "nanogpt", "--tokens", "32", "--",
                    sys.executable, "printing.py", interleave=False)
    two = rung("ranks", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "{world_size}", "ranks.py",
               more="train = { world_size = 2 }")
    results, text = run(work, [rung("loop", "loop.py"), rung("trainer", "trainer.py"), two, printing])
    assert all(result["status"] == "ok" for result in results.values()), text
    loop, trainer, ranks, printed = (results[name] for name in ("loop", "trainer", "ranks", "printing"))
    for result in (loop, trainer, ranks, printed):
        assert [step["step"] for step in result["steps"]] == list(range(8))
        assert not result["steps"][0]["timed"] and result["steps"][7]["timed"]
        assert all(step["loss"] > 0 and step["seconds"] > 0 for step in result["steps"])
    assert {step["tokens"] for step in loop["steps"]} == {64} == {step["tokens"] for step in trainer["steps"]}
    assert set(loop["phases"]) >= {"data", "forward", "backward", "optimizer"}
    assert loop["memory"]["process"] > 0 and loop["notes"][0].startswith("torch ")
    assert all(step["grad_norm"] > 0 for step in trainer["steps"])
    assert {step["tokens"] for step in ranks["steps"]} == {8 * 2}
    for result in (loop, trainer, ranks):
        assert result["turns"] == results["base"]["turns"], "they are interleaved step by step"
    assert "turns" not in printed
    assert [step["seconds"] for step in printed["steps"]] == [(2 + number / 100) / 1e3 for number in range(8)]
    guide = (SOURCE / "docs/guides/your_script.md").read_text()
    shown = re.findall(r"^(?:base|loop), round .*$", guide, re.MULTILINE)
    masked = re.sub(r"[\d.,]+", "#", text)
    assert len(shown) == 2 and all(re.sub(r"[\d.,]+", "#", line) in masked for line in shown), text
    alone(work, "loop.py", 3)
    alone(work, "trainer.py", 40)
