"""A folder with a script of an experiment that trains in a moment, and `optrush` in it."""
import os
import pathlib
import subprocess
import tempfile

OPTRUSH = os.path.join(os.environ["OPTRUSH_BUILD_DIR"], "bin", "optrush")
SCRIPT = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "tiny",
  question = "Does the command line work?",
  model = rush.llama("nano"),
  data = rush.random(),
  train = { micro_batch = 2, seq_len = 16, steps = 3, warmup = 1 },
}
exp:ladder {
  rush.rung("accumulated", "gradient_accumulation", { steps = 2 }),
  rush.rung("fused", "fused_adamw"),
}
exp:run { rounds = 2 }:report()
"""
folder = tempfile.TemporaryDirectory()  # removed at the end of the process
work = pathlib.Path(folder.name)
(work / "tiny.lua").write_text(SCRIPT)


def optrush(*arguments, charts=False):
    """Draws no charts by default, because they take a second."""
    environment = os.environ if charts else {**os.environ, "OPTRUSH_PYTHON": "/bin/false"}
    return subprocess.run([OPTRUSH, *arguments], capture_output=True, text=True, cwd=work, env=environment)


def expect(done, code, *texts):
    everything = done.stdout + done.stderr
    assert done.returncode == code, f"exit code {done.returncode} instead of {code}:\n{everything}"
    for text in texts:
        assert text in everything, f"{text!r} is not in:\n{everything}"
    assert "\x1b" not in everything, "escape sequences outside of a terminal"
    return done


def run_cases(*cases):
    for case in cases:
        case()
        print(case.__name__, "passed", flush=True)
