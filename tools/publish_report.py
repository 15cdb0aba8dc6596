"""Copies a report into the folder that is committed: raw results, tables and pictures, with paths of this
checkout made relative, and of the home folder with ~.

    python tools/publish_report.py reports/quickstart/local reports/quickstart/epyc-2-cores
"""

import json
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOT_COMMITTED = ("report.html",)  # made again by `optrush report`


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
    (target / "results.json").write_text(text)
    subprocess.run([ROOT / "optrush", "report", target], check=True)
    for name in NOT_COMMITTED:
        (target / name).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
