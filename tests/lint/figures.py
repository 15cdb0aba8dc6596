"""Sizes of the code, to compare over time: python figures.py [ROOT].

- lines and files of core, plugins and tests, without the fuzz corpus: C++, kernels, Python, Lua, CMake and shell
- circles: folders of core that include each other, directly or indirectly; a folder is one below core/, and
  core/include is the SDK
- the headers that optrush/plugin.h includes, directly or indirectly: all that the author of a plugin sees
- a training step: the sources in reach of the source that fires the event `step_begin`. Counted are the headers that it
  includes, directly or indirectly, and the source of each header, which has the same name and includes the header
- the number of files that name `compile_seconds`, outside of tests, docs and reports: the files that a new number of a
  result would touch
"""

import re
import sys
from pathlib import Path

SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".py", ".lua", ".cmake", ".sh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
SDK = "include"
NUMBER = "compile_seconds"
STEP_BEGINS = re.compile(r"fire\(\s*Event::step_begin\b")


def texts_below(folder, skip=()):
    return {
        file: file.read_text(errors="replace")
        for file in sorted(folder.rglob("*"))
        if file.is_file() and (file.suffix in SUFFIXES or file.name == "CMakeLists.txt")
        and not any(file.is_relative_to(other) for other in skip)
    }


def lines(texts):
    return sum(text.count("\n") for text in texts.values())


class Includes:
    """The includes within core. Names are written as they are included: `optrush/...` for the SDK."""

    def __init__(self, core):
        self.core = core
        sources = {file: text for file, text in texts_below(core).items() if file.suffix in {".h", ".cpp"}}
        self.texts = {self.name(file): text for file, text in sources.items()}

    def name(self, file):
        path = file.relative_to(self.core)
        return str(path.relative_to(SDK) if path.parts[0] == SDK else path)

    def of(self, name):
        beside = str(Path(name).parent)
        for included in INCLUDE.findall(self.texts[name]):
            for candidate in (included, f"{beside}/{included}"):
                if candidate in self.texts:
                    yield candidate
                    break

    def reached(self, *names):
        found, open_names = set(names), list(names)
        while open_names:
            for included in self.of(open_names.pop()):
                if included not in found:
                    found.add(included)
                    open_names.append(included)
        return found

    def lines(self, names):
        return sum(self.texts[name].count("\n") for name in names)


def folder_of(name):
    first = Path(name).parts[0]
    return SDK if first == "optrush" else first


def circles(includes):
    """Groups of folders that reach each other, each with the includes that lead from one of its folders to another."""
    edges = {}
    for name in includes.texts:
        for included in includes.of(name):
            if folder_of(name) != folder_of(included):
                edges.setdefault(folder_of(name), {}).setdefault(folder_of(included), []).append((name, included))

    def reach(start):
        found, open_folders = set(), [start]
        while open_folders:
            for folder in edges.get(open_folders.pop(), ()):
                if folder not in found:
                    found.add(folder)
                    open_folders.append(folder)
        return found

    reached = {folder: reach(folder) for folder in edges}
    groups = {frozenset({folder} | {other for other in reached[folder] if folder in reached.get(other, ())})
              for folder in edges if folder in reached[folder]}
    return [(sorted(group), {(a, b): edges[a][b] for a in sorted(group) for b in sorted(group) if b in edges[a]})
            for group in sorted(groups, key=sorted)]


def files_of_a_step(includes):
    begin = [name for name, text in includes.texts.items() if STEP_BEGINS.search(text)]
    headers = includes.reached(*begin)
    sources = {name for name in includes.texts if name.endswith(".cpp")
               for header in includes.of(name) if header in headers and Path(header).stem == Path(name).stem}
    return headers | sources


def main(root):
    root = Path(root).resolve()
    corpus = root / "tests/fuzz/corpus"
    for folder in ("core", "plugins", "tests"):
        texts = texts_below(root / folder, skip=[corpus])
        print(f"{folder}: {lines(texts):,} lines in {len(texts)} files")
    includes = Includes(root / "core")
    found = circles(includes)
    print(f"circles of folders in core: {len(found)}")
    for group, steps in found:
        print("  " + " - ".join(group))
        for (a, b), made_by in steps.items():
            name, included = made_by[0]
            print(f"    {a} includes {b} {len(made_by)} times: {name} includes {included}")
    sdk = includes.reached("optrush/plugin.h")
    print(f"optrush/plugin.h: {len(sdk)} headers, {includes.lines(sdk):,} lines")
    step = files_of_a_step(includes)
    print(f"within reach of a training step: {len(step)} files, {includes.lines(step):,} lines")
    named = [file for folder in ("core", "plugins", "scripts")
             for file, text in texts_below(root / folder).items() if NUMBER in text]
    print(f"files that name {NUMBER}: {len(named)}")
    for file in named:
        print(f"  {file.relative_to(root)}")


if __name__ == "__main__":
    main(*(sys.argv[1:] or [Path(__file__).resolve().parents[2]]))
