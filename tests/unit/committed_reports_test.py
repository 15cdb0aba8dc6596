"""The reports in reports/: each renders to the same files, from a clean commit, without local paths. All take at most
8 MB, a results.json at most 200 KB, and reports/README.md lists them."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
OPTRUSH = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]) / "bin/optrush"
MOST_BYTES = 8_000_000
MOST_BYTES_OF_RESULTS = 200_000
STORED = ("experiment.json", "variants.json", "plans.json", "context.json", "noise.jsonl", "tried.json", "runs.jsonl")
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tools"))
import reports_page  # noqa: E402


def rendered_again(report):
    """The tables, from the files that are not rendered."""
    with tempfile.TemporaryDirectory() as folder:
        for name in STORED:
            if (report / name).exists():
                shutil.copy(report / name, folder)
        done = subprocess.run([OPTRUSH, "report", folder], capture_output=True, text=True)
        assert done.returncode == 0, f"{report}: {done.stderr}"
        if "tables only" in done.stderr:
            return None
        files = ("report.md", "results.csv", "results.json", "summary.json")
        return {name: (pathlib.Path(folder) / name).read_text() for name in files}


def strings_in(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings_in(each)


def check_paths(file):
    """Published reports have paths relative to the project, and no path of the machine."""
    lines = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
    paths = {text for line in lines for text in strings_in(json.loads(line)) if re.match(r"/[\w.-]+/", text)}
    cure = "cut them to those of the project here and in report.md"
    assert not paths, f"{file} names paths of a machine, {cure}: {sorted(paths)[:5]}"


def check_used_checkout():
    """A user's report, under any label, is not one of the committed reports."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for label in ("published", "mine"):
            (root / "reports/a" / label).mkdir(parents=True)
            (root / "reports/a" / label / "report.md").touch()
        for command in (["init", "--quiet"], ["add", "reports/a/published"]):
            subprocess.run(["git", *command], cwd=root, check=True)
        assert reports_page.committed(root) == [root / "reports/a/published"]


def main():
    again = size = 0
    check_used_checkout()
    for folder in reports_page.committed(SOURCE):
        for file in folder.glob("*.json*"):
            check_paths(file)
        commit = json.loads((folder / "context.json").read_text())["commit"]
        assert not commit.endswith("-dirty"), f"{folder} was made with uncommitted changes"
        files = rendered_again(folder)
        if files is None:
            print("vl-convert-python is not installed")
            sys.exit(77)
        for name, expected in files.items():
            there = folder / name
            assert there.read_text() == expected, f"{there}: render it again with optrush report"
        again += 1
        results = (folder / "results.json").stat().st_size
        assert results <= MOST_BYTES_OF_RESULTS, f"{folder}/results.json takes {results} bytes"
        size += sum(file.stat().st_size for file in folder.iterdir())
    assert again > 0
    assert size <= MOST_BYTES, f"the reports take {size} bytes"
    there = (SOURCE / "reports/README.md").read_text()
    assert there == reports_page.page(SOURCE), "run tools/reports_page.py --write"


if __name__ == "__main__":
    main()
