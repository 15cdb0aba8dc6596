"""`compare --fail-below` and `report --fail-below`: one line and an exit code, by the bounds of intervals."""
import csv
import os
import pathlib
import shutil
import subprocess
import tempfile

OPTRUSH = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]) / "bin/optrush"
REPORT = pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"]) / "reports/quickstart/epyc-2-cores"


def optrush(*words):
    done = subprocess.run([OPTRUSH, *words], capture_output=True, text=True, cwd=work,
                          env={**os.environ, "OPTRUSH_PYTHON": "/bin/false"})
    return done.returncode, done.stdout, done.stderr


def is_line(got, code, *texts):
    assert got[0] == code and got[1].count("\n") == 1 and all(text in got[1] for text in texts), got


with tempfile.TemporaryDirectory() as temporary:
    work = pathlib.Path(temporary)
    shutil.copytree(REPORT, work / "short")
    rows = csv.DictReader((REPORT / "results.csv").read_text().splitlines())
    (row,) = [row for row in rows if row["rung"] == "FlashAttention"]
    value, low, high = (float(row[name]) for name in ("vs_base", "vs_base_low", "vs_base_high"))
    assert 1.5 < low < value < high, row
    limit, text = ("report", "short", "--fail-below"), f"FlashAttention {value:.2f}x [{low:.2f}, {high:.2f}]"
    is_line(optrush(*limit, f"FlashAttention={low - 0.1}"), 0, "passed: 1 rung checked")
    is_line(optrush(*limit, f"FlashAttention={value}"), 0, "passed", "undecided: " + text)
    is_line(optrush(*limit, f"FlashAttention={high + 0.1}"), 1, f"failed: {text} is below ")
    is_line(optrush(*limit, "FlashAttention=1.1", "--fail-below", "base=1"), 1, "base needs 3 rounds")
    for bad, text in (("bf16=1", "no rung 'bf16'"), ("FlashAttention", "RUNG=RATIO"), ("base=fast", "RUNG=RATIO")):
        code, _, error = optrush(*limit, bad)
        assert code == 2 and text in error, error
    is_line(optrush("compare", "short", "short", "--fail-below", "0.9"), 0, "passed:")
    is_line(optrush("compare", "short", "short", "--fail-below", "1.5"), 1, "failed:", "is below 1.50x")
    code, _, error = optrush("compare", "short", "short", "--fail-below", "0.9", "--json")
    assert code == 2, error
