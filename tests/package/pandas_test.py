"""The tables of a report as DataFrames. Skipped where pandas is not installed."""
import os
import pathlib
import sys

try:
    import pandas
except ImportError:
    print("skipped: pandas is not installed")
    sys.exit(77)

SOURCE = pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "scripts/python"))
import optimization_rush  # noqa: E402

REPORT = SOURCE / "tests/fixtures/reports/validated"
report = optimization_rush.read(REPORT)
tables = {name: getattr(report, name) for name in ("rows", "runs", "steps", "validations", "claims")}
for name, table in tables.items():
    assert isinstance(table, pandas.DataFrame) and len(table) > 0, name
rows, csv = tables["rows"].set_index("rung"), pandas.read_csv(REPORT / "results.csv").set_index("rung")
for ours, theirs in {"tokens_per_second": "tokens_per_second", "vs_base.speed.value": "vs_base",
                     "validation_loss": "validation_loss"}.items():
    pandas.testing.assert_series_equal(rows[ours], csv[theirs], check_names=False, check_index=True)
of_run = tables["steps"].query("timed").groupby("rung").seconds.median()  # the report keeps the run of one rung
assert list(of_run.index) == ["fused AdamW"] and abs(of_run.iloc[0] / csv.step_seconds["fused AdamW"] - 1) < 0.01
assert tables["validations"].sort_values("step").loss.iloc[-1] == csv.validation_loss["fused AdamW"]
