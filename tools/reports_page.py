"""reports/README.md: the committed reports with machine, date, duration and answer.

    python tools/reports_page.py [--write]

Without --write it prints the page. A report counts from `git add` on; other folders of a used checkout do not.
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEAD = """# Reports

The reports that this project publishes. Each has its raw results (`runs.jsonl`), and `optrush report FOLDER` renders
it again. `tools/publish_report.py` adds a report, and `tools/reports_page.py --write` makes this page. A minute is a
minute of runs: set-up, compilation and steps.

| experiment | machine | date | minutes | answer |
| :--- | :--- | :--- | ---: | :--- |
"""
TAIL = """
`gpu/` has the outcomes of [a quarter of an hour on a GPU](../docs/internals/gpu_quarter.md).
"""


def seconds_of(result):
    """The time that a run takes."""
    return sum(result.get(part) or 0 for part in ("setup_seconds", "compile_seconds")) + sum(
        step["seconds"] for step in result.get("steps") or ())


def line_of(folder):
    runs = map(json.loads, (folder / "runs.jsonl").read_text().splitlines())
    summary = json.loads((folder / "summary.json").read_text())
    minutes = sum(seconds_of(run["result"]) for run in runs) / 60
    name = f"{folder.parent.name}/{folder.name}"
    cells = (f"[{folder.parent.name}]({name}/report.md)", summary["machine"], summary["date"][:10],
             "below 1" if minutes < 1 else f"{minutes:.0f}", summary["headline"])
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def committed(root=ROOT):
    """The folders of the reports that git has."""
    command = ["git", "-c", f"safe.directory={root}", "ls-files", "-z", "reports/*/*/report.md"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return sorted((root / name).parent for name in listed.split("\0") if name.count("/") == 3)


def page(root=ROOT):
    return HEAD + "".join(map(line_of, committed(root))) + TAIL


def main():
    if sys.argv[1:] == ["--write"]:
        (ROOT / "reports/README.md").write_text(page())
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
