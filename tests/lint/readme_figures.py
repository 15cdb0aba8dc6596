"""The README has at most 100 lines, and the figures of its table are those of the report that it shows."""

import os
import pathlib
import re
import sys

ROOT = pathlib.Path(os.environ.get("OPTRUSH_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
NUMBER = re.compile(r"\d[\d,.]*")


def rows(text):
    """Rows of the tables of rungs, by the rung."""
    found = {}
    for table in re.findall(r"^\| rung \|.*\n\| :?-.*\n((?:\|.*\n)+)", text, re.MULTILINE):
        for line in table.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            found.setdefault(cells[0].strip(), line)
    return found


def main():
    text = (ROOT / "README.md").read_text()
    lines, report = len(text.splitlines()), re.search(r"reports/[\w/-]+/report\.md", text)[0]
    found = [f"README.md has {lines} lines, more than 100"] if lines > 100 else []
    shown, measured = rows(text), rows((ROOT / report).read_text())
    if not shown:
        found.append("README.md has no table of rungs")
    for rung, line in shown.items():
        missing = set(NUMBER.findall(line)) - set(NUMBER.findall(measured.get(rung, "")))
        if missing:
            found.append(f"README.md, {rung}: {report} lacks {', '.join(sorted(missing))}")
    print("\n".join(found) or f"{len(shown)} rows of {report}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
