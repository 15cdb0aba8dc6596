"""The folders of core have an order: a file includes only files of its folder or of a lower one.

So there is no circle of folders, and the place of a folder bounds its dependencies. Folders outside core are above all
of them. Prints each include that points upward. The documentation has a table of the folders in the same order."""

import os
import pathlib
import re
import subprocess
import sys

# From the lowest to the highest. `include` is the SDK, whose headers are named optrush/...
LAYERS = [
    "include",
    "base",
    "spec",
    "machine",
    "io",
    "checkpoint",
    "params",
    "model",
    "measure",
    "gpu",
    "distributed",
    "recipe",
    "plugin",
    "experiment",
    "results",
    "analysis",
    "simulated",
    "data",
    "train",
    "worker",
    "process",
    "report",
    "script",
    "launch",
    "search",
    "cli",
]
# The order of the subfolders of a folder. Files beside the subfolders are above all of them.
SUBFOLDERS = {"analysis": ["numbers", "gate"], "report": ["claims", "sections", "writers"]}
PLACE = {folder: place for place, folder in enumerate(LAYERS)}
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"')
TABLE = "docs/internals/index.md"
ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def folder_of(header):
    first = header.split("/")[0]
    return "include" if first == "optrush" else first


def subfolder_of(parts):
    """The place of folder/subfolder/file among the folder's subfolders."""
    subfolders = SUBFOLDERS[parts[0]]
    return subfolders.index(parts[1]) if len(parts) > 2 else len(subfolders)


def upward(path, text):
    """Includes of a file that point to a folder or a subfolder above its own, with their lines."""
    own, *_ = parts = path.split("/")[1:]
    for number, line in enumerate(text.splitlines(), 1):
        if (found := INCLUDE.match(line)) and "/" in found[1]:
            other = folder_of(found[1])
            above = PLACE.get(other, len(PLACE)) > PLACE[own]  # no place: a folder of tools/ or plugins/
            if other == own and own in SUBFOLDERS:
                above = subfolder_of(found[1].split("/")) > subfolder_of(parts)
            if above:
                yield number, found[1]


def main():
    os.chdir(os.environ["OPTRUSH_SOURCE_DIR"])
    list_files = ["git", "-c", f"safe.directory={os.getcwd()}", "ls-files", "core"]
    listed = subprocess.run(list_files, capture_output=True, text=True)
    if listed.returncode != 0:
        print("this is not a git checkout")
        return 77
    rows = ROW.findall(pathlib.Path(TABLE).read_text())
    failed = rows != LAYERS
    if failed:
        print(f"{TABLE}: its table has the folders {rows}, but the order is {LAYERS}")
    for path in listed.stdout.split():
        if not path.endswith((".h", ".cpp", ".cu", ".h.in")) or path.count("/") < 2:
            continue
        if path.split("/")[1] not in PLACE:
            print(f"{path}: its folder has no place in the order of tests/lint/folder_order.py")
            failed = True
            continue
        for number, header in upward(path, pathlib.Path(path).read_text()):
            print(f"{path}:{number}: includes {header}, above its own place")
            failed = True
    return int(failed)


sys.exit(main())
