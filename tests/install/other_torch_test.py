"""Checks with the compiler, without making code, that files of core and plugins fit further versions of LibTorch.

OPTRUSH_OTHER_TORCH=FOLDER[:FOLDER...] names the folders of these Python packages torch, or LibTorches. The files are
those that include what differs between versions: optrush/torch_versions, headers below torch/csrc, or autocast's lists.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT, BUILD = Path(os.environ["OPTRUSH_SOURCE_DIR"]), Path(os.environ["OPTRUSH_BUILD_DIR"])
TORCH = os.environ["OPTRUSH_TORCH_DIR"]
DIFFERS = re.compile(r'#include ("optrush/torch_versions/|<torch/csrc/|<ATen/autocast_mode.h>)')


def sources(file):
    """The project's files that are compiled together in `file`."""
    if BUILD not in file.parents:
        return [file]
    return [(file.parent / name).resolve() for name in re.findall(r'#include "(.+\.cpp)"', file.read_text())]


def differs(source):
    folder_headers = source.parent.glob("*.h")
    return any(DIFFERS.search(file.read_text()) for file in (source, *folder_headers))


def chosen():
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        file = Path(entry["file"])
        if file.suffix == ".cpp" and TORCH in entry["command"]:
            those = [source for source in sources(file) if source.relative_to(ROOT).parts[0] in ("core", "plugins")]
            if any(differs(source) for source in those):
                yield entry


def syntax_command(entry, torch, folder):
    """The command of the build for another torch. A copy of its precompiled header in `folder` is read as text."""
    words = shlex.split(entry["command"].replace(TORCH, torch))
    output = words.index("-o")
    del words[output : output + 2]
    if "-include" in words:
        header = words.index("-include") + 1
        words[header] = shutil.copy(words[header], folder)
    return [word for word in words if word not in ("-c", "-Winvalid-pch")] + [
        f"-I{ROOT / 'cmake/precompiled'}", "-O0", "-fsyntax-only"]


def check(entry, torch):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(syntax_command(entry, torch, folder), cwd=entry["directory"], capture_output=True,
                              text=True)
    return f"{entry['file']} with {torch}:\n{done.stderr[:3000]}" if done.returncode else ""


def main():
    others = [folder for folder in os.environ.get("OPTRUSH_OTHER_TORCH", "").split(":") if folder]
    if not others:
        print("OPTRUSH_OTHER_TORCH names no further LibTorch")
        return 77
    entries = list(chosen())
    assert entries
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = [text for torch in others for text in pool.map(lambda entry: check(entry, torch), entries) if text]
    print("\n".join(errors) or f"{len(entries)} files fit {', '.join(others)}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
