"""Copies a report into the folder that is committed: raw results, tables and pictures, with paths of this
checkout made relative, and of the home folder with ~. A third of the raw results is left out, because no report reads
it: the plan that each run repeats, and its costs by phase and operator. Then run tools/reports_page.py --write.

    python tools/publish_report.py reports/quickstart/local reports/quickstart/epyc-2-cores
"""

import json
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOT_COMMITTED = ("report.html",)  # made again by `optrush report`


def thin(text):
    """The results without what the plans of the document have, and without costs of single operators."""
    document = json.loads(text)
    for run in document["runs"]:
        run["result"].pop("plan", None)
        for part in ("phases", "operators"):
            (run["result"].get("costs") or {}).pop(part, None)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = map(pathlib.Path, sys.argv[1:])
    text = (source / "results.json").read_text()
    commit = json.loads(text)["context"]["commit"]
    if commit.endswith("-dirty"):
        sys.exit(f"{source} was measured with uncommitted changes (commit {commit}): measure a clean commit")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path, shown in ((f"{ROOT}/", ""), (f"{pathlib.Path.home()}/", "~/")):
        text = text.replace(path, shown)
    (target / "results.json").write_text(thin(text))
    subprocess.run([ROOT / "optrush", "report", target], check=True)
    for name in NOT_COMMITTED:
        (target / name).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
