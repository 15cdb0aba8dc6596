"""Copies a report into the folder that is committed: its stored files, tables and pictures, with paths of this
checkout made relative, and of the home folder with ~. The spec and the result of each run become a line of runs.jsonl.
A third of a result is left out, because no report reads it: the plan, which plans.json has, and its costs by phase and
operator. Then run tools/reports_page.py --write.

    python tools/publish_report.py reports/quickstart/local reports/quickstart/epyc-2-cores
"""

import json
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOT_COMMITTED = ("report.html",)  # made again by `optrush report`
STORED = ("experiment.json", "variants.json", "plans.json", "context.json", "noise.jsonl", "tried.json")


def packed(run, plans):
    """A line of runs.jsonl."""
    spec, result = (json.loads((run / name).read_text()) for name in ("spec.json", "result.json"))
    if plans[spec["variant"]]:
        result.pop("plan", None)
    for part in ("phases", "operators"):
        (result.get("costs") or {}).pop(part, None)
    line = {"id": run.name, "spec": spec, "result": result}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = map(pathlib.Path, sys.argv[1:])
    texts = {name: (source / name).read_text() for name in STORED if (source / name).exists()}
    commit = json.loads(texts["context.json"])["commit"]
    if commit.endswith("-dirty"):
        sys.exit(f"{source} was measured with uncommitted changes (commit {commit}): measure a clean commit")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    plans = json.loads(texts["plans.json"])
    runs = sorted(result.parent for result in source.glob("runs/*/result.json"))
    texts["runs.jsonl"] = "".join(packed(run, plans) for run in runs)
    for name, text in texts.items():
        for path, shown in ((f"{ROOT}/", ""), (f"{pathlib.Path.home()}/", "~/")):
            text = text.replace(path, shown)
        (target / name).write_text(text)
    subprocess.run([ROOT / "optrush", "report", target], check=True)
    for name in NOT_COMMITTED:
        (target / name).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
