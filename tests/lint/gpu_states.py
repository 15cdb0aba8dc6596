"""docs/status.md gives the state of each GPU path, has a row for each plugin, and names only tests that exist."""

import os
import pathlib
import re
import sys

SOURCE = pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
STATES = ("ran on an H200", "host side", "compiled", "no GPU path")
OF_THE_STAND_IN = re.compile(r"`(fake_\w+(?:\.\w+)?)`")


def rows_of(page):
    section = page.split("## What waits for a GPU\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return rows[1:]  # without the header


def plugins():
    return {folder.name for kind in ("optimizations", "parallelism") for folder in (SOURCE / "plugins" / kind).iterdir()
            if folder.is_dir()}


def tests_of_the_stand_in():
    return set(re.findall(r"\bNAME (\S+)", (SOURCE / "tests/fake_cuda/CMakeLists.txt").read_text()))


def faults_of(page):
    rows = rows_of(page)
    named = {name for path, *_ in rows for name in re.findall(r"`(\w+)`", path)}
    yield from (f"no row for the plugin '{plugin}'" for plugin in sorted(plugins() - named))
    for path, state, *details in rows:
        if state not in STATES:
            yield f"the row '{path}' has the state '{state}'; states: {', '.join(STATES)}"
        if state == "host side" and not OF_THE_STAND_IN.search(" | ".join(details)):
            yield f"the row '{path}' names no test on the stand-in"
    unknown = {test for row in rows for test in OF_THE_STAND_IN.findall(" | ".join(row))} - tests_of_the_stand_in()
    yield from (f"no test '{test}' in tests/fake_cuda/CMakeLists.txt" for test in sorted(unknown))


page = (SOURCE / "docs/status.md").read_text()
faults = list(faults_of(page))
for fault in faults:
    print(f"docs/status.md, What waits for a GPU: {fault}")
wrong = page.replace("`nf4`, ", "").replace("| host side |", "| perhaps |", 1)
assert len(list(faults_of(wrong))) == len(faults) + 2, "a missing plugin or an unknown state is not noticed"
sys.exit(1 if faults else 0)
