"""`compare --fail-below` and `report --fail-below`: one line and an exit code, by the bounds of intervals."""
import os
import pathlib
import shutil
import subprocess
import tempfile

OPTRUSH = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]) / "bin/optrush"
REPORTS = pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"]) / "tests/fixtures/reports"


def optrush(*words):
    done = subprocess.run([OPTRUSH, *words], capture_output=True, text=True, cwd=work,
                          env={**os.environ, "OPTRUSH_PYTHON": "/bin/false"})
    return done.returncode, done.stdout, done.stderr


def is_line(got, code, *texts):
    assert got[0] == code and got[1].count("\n") == 1 and all(text in got[1] for text in texts), got


with tempfile.TemporaryDirectory() as temporary:
    work = pathlib.Path(temporary)
    shutil.copytree(REPORTS / "short", work / "short")
    # bf16 autocast is 1.998x [1.971, 2.025] as fast as the base.
    limit = ("report", "short", "--fail-below")
    is_line(optrush(*limit, "bf16 autocast=1.9"), 0, "passed: 1 rung checked")
    is_line(optrush(*limit, "bf16 autocast=2.0"), 0, "passed", "undecided: bf16 autocast 2.00x [1.97, 2.02]")
    is_line(optrush(*limit, "bf16 autocast=2.1"), 1, "failed: bf16 autocast 2.00x [1.97, 2.02] is below 2.10x")
    is_line(optrush(*limit, "bf16 autocast=1.9", "--fail-below", "base=1"), 1, "base needs 3 rounds")
    for bad, text in (("bf16=1", "no rung 'bf16'"), ("bf16 autocast", "RUNG=RATIO"), ("base=fast", "RUNG=RATIO")):
        code, _, error = optrush(*limit, bad)
        assert code == 2 and text in error, error
    is_line(optrush("compare", "short", "short", "--fail-below", "0.9"), 0, "passed:")
    is_line(optrush("compare", "short", "short", "--fail-below", "1.5"), 1, "failed:", "is below 1.50x")
    code, _, error = optrush("compare", "short", "short", "--fail-below", "0.9", "--json")
    assert code == 2, error
