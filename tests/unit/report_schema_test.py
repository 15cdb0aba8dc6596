"""results.json keeps to its schema, and results.csv has the documented columns."""
import copy
import csv
import json
import os
import pathlib
import re

import jsonschema
import referencing

ROOT = pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
SCHEMAS = {name: json.loads((ROOT / "docs/schema" / f"{name}.schema.json").read_text())
           for name in ("results", "run_result", "run_spec", "comparison", "summary")}
REPORTS = ROOT / "tests/fixtures/reports"

registry = referencing.Registry().with_resources(
    (schema["$id"], referencing.Resource.from_contents(schema)) for schema in SCHEMAS.values())
for schema in SCHEMAS.values():
    jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(SCHEMAS["results"], registry=registry)

results = json.loads((REPORTS / "short/results.json").read_text())
scaling = json.loads((REPORTS / "scaling/results.json").read_text())
validated = json.loads((REPORTS / "validated/results.json").read_text())
for report in (results, scaling, validated):
    validator.validate(report)


def refused(change, whole=results, by=validator):
    """True if the schema rejects the results after `change`."""
    damaged = copy.deepcopy(whole)
    change(damaged)
    return not by.is_valid(damaged)


assert refused(lambda r: r.update(schema_version=2))
assert refused(lambda r: r["rows"][1].update(status="fine"))
assert refused(lambda r: r["rows"][1].pop("mfu"))
assert refused(lambda r: r["rows"][1]["vs_base"]["speed"].update(interval=[1]))
assert refused(lambda r: r["runs"].append(1))
assert refused(lambda r: r["rows"][1]["time_to_loss"].update(by="luck"), validated)
assert refused(lambda r: r["rows"][1]["counters"][0].pop("plugin"), validated)
assert refused(lambda r: r["scaling"][0].update(kind="super"), scaling)
assert refused(lambda r: r["rows"][2]["ranks"][0].pop("rank"), scaling)

of_specs, of_runs = (jsonschema.Draft202012Validator(SCHEMAS[name], registry=registry)
                     for name in ("run_spec", "run_result"))
first = {}
for name in ("short", "scaling", "validated"):
    for line in (REPORTS / name / "runs.jsonl").read_text().splitlines():
        run = json.loads(line)
        of_specs.validate(run["spec"])
        of_runs.validate(run["result"])
        first.setdefault(name, run)
assert refused(lambda s: s.update(unknown=1), first["short"]["spec"], of_specs)
assert refused(lambda r: r["steps"][0].pop("tokens"), first["short"]["result"], of_runs)
assert refused(lambda r: r["validation"][0].pop("loss"), first["validated"]["result"], of_runs)
assert refused(lambda r: r["counters"]["mixed_precision"][0].pop("value"), first["validated"]["result"], of_runs)
assert refused(lambda r: r["collectives"][0].update(unknown=1), first["scaling"]["result"], of_runs)

summaries = jsonschema.Draft202012Validator(SCHEMAS["summary"], registry=registry)
for name in ("short", "scaling", "validated"):
    summary = json.loads((REPORTS / name / "summary.json").read_text())
    summaries.validate(summary)
    summary["rungs"][1]["vs_base"]["verdict"] = "surely"
    assert not summaries.is_valid(summary)

comparison = json.loads((REPORTS / "comparison.json").read_text())
compared = jsonschema.Draft202012Validator(SCHEMAS["comparison"], registry=registry)
compared.validate(comparison)
comparison["rungs"][1]["reports"][1]["speed_vs_first"]["interval"] = [1]
assert not compared.is_valid(comparison)

documented = re.findall(r"^\| (\w+) \|", (ROOT / "docs/schema/results_csv.md").read_text(), re.MULTILINE)[1:]
for report in sorted(REPORTS.glob("*/results.csv")):
    with open(report, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == documented, report
    assert rows and all(len(row) == len(header) for row in rows), report
    for row in csv.DictReader(open(report, newline="", encoding="utf-8")):
        for column, value in row.items():
            if column.endswith(("_seconds", "_bytes")) and value:
                float(value)

# Amounts of memory are in powers of two, everywhere; rates in powers of ten.
for report in sorted(REPORTS.glob("*/report.md")):
    assert not re.findall(r"\d [kMGT]B(?!/s)", report.read_text()), report
