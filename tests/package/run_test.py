"""`optimization_rush.run` runs a script by its path or its text, and returns its report."""
import os
import sys

from support import BUILD, SOURCE, folder_of_programs

sys.path.insert(0, str(SOURCE / "scripts/python"))
import optimization_rush  # noqa: E402
from optimization_rush.host import RunFailed  # noqa: E402

TEXT = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "python",
  model = rush.llama("nano"),
  data = rush.random(),
  train = { micro_batch = 2, seq_len = 16, steps = rush.arg("steps", 3), warmup = 1 },
}
exp:run { rounds = 1 }:report()
"""
os.environ.update(OPTRUSH=str(BUILD / "bin/optrush"), OPTRUSH_PYTHON="/bin/false")

with folder_of_programs() as work:
    report = optimization_rush.run(TEXT, label="text", args={"steps": 4}, options=["--device", "cpu"], folder=work)
    assert report.folder == work / "reports/python/text", report.folder
    sys.modules["pandas"] = None  # without it, tables are lists
    assert len([step for step in report.steps if step["run"] == "00-base-r1" and step["timed"]]) == 4
    assert report.headline in repr(report)
    (work / "file.lua").write_text(TEXT)
    report = optimization_rush.run(work / "file.lua", options=["--device", "cpu"], folder=work)
    assert report.summary["label"] == "local"
    try:
        optimization_rush.run("local rush = require 'optrush'\nrush.llame('nano')", folder=work)
    except RunFailed as failed:
        assert failed.code == 1 and "llame" in str(failed), failed
    else:
        raise AssertionError("a wrong script must be refused")
