"""The README has at most 100 lines, a table as in the last report that it links, and the numbers of what ships.

Intervals in a paragraph of the README or of docs/ that links a report are in that report.

--update writes the table anew from its report."""

import os
import pathlib
import re
import sys

ROOT = pathlib.Path(os.environ.get("OPTRUSH_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
TABLE = re.compile(r"^\| rung \|.*\n\| :?-.*\n(?:\|.*\n)+", re.MULTILINE)
LINK = re.compile(r"\]\((?:\.\./)*(reports/[\w/-]+/report\.md)")
NUMBER = re.compile(r"\d[\d,.]*")


def rows(text):
    """{rung: row} of the tables of rungs."""
    found = {}
    for table in TABLE.findall(text):
        for line in table.splitlines()[2:]:
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            found.setdefault(cells[0].strip(), line)
    return found


def shipped(text):
    """Faults of the numbers of plugins and experiments."""
    for what, files in (("plugins", "docs/plugins/shipped/*.md"), ("experiments", "experiments/*.lua")):
        count = len(list(ROOT.glob(files)))
        if f"[{count} {what}]" not in text:
            yield f"README.md: {count} {what} ship"


def unknown_intervals():
    """Intervals of a paragraph that none of the reports has which the paragraph links."""
    for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))):
        for paragraph in re.split(r"\n\s*\n", page.read_text()):
            reports = [ROOT / name for name in re.findall(LINK, paragraph)]
            measured = "".join(report.read_text() for report in reports)
            for interval in re.findall(r"\[[\d.]+, [\d.]+\]", paragraph) if reports else ():
                if interval not in measured:
                    yield f"{page.relative_to(ROOT)}: {interval} is in no report that the paragraph links"


def main():
    text = (ROOT / "README.md").read_text()
    report = re.findall(r"reports/[\w/-]+/report\.md", text[:TABLE.search(text).start()])[-1]
    if "--update" in sys.argv[1:]:
        text = TABLE.sub(lambda _: TABLE.search((ROOT / report).read_text())[0], text, count=1)
        (ROOT / "README.md").write_text(text)
    lines = len(text.splitlines())
    found = [f"README.md has {lines} lines, more than 100"] if lines > 100 else []
    found += [*shipped(text), *unknown_intervals()]
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
