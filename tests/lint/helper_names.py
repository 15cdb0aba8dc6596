"""Helpers in the files of one folder have different names.

`OPTRUSH_UNITY` compiles these files together, so a call could silently choose an overload from another file. Aliases
may be repeated if they are equal."""

import collections
import os
import pathlib
import re
import subprocess
import sys

# A declaration at the left margin: a type, an alias, a constant or a function.
DECLARED = re.compile(
    r"^(?:template\s*<[^;{]*?>\s*)?(?:\[\[\w+\]\]\s*)?(?:static |inline |constexpr |const )*"
    r"(?:(?:class|struct|enum class|enum|union)\s+(\w+)|(using\s+\w+\s*=.*|namespace\s+\w+\s*=.*)"
    r"|[\w:<>,\s*&.()\[\]]*?[\s*&>](\w+)\s*[(={;\[])"
)
COMPILED_TOGETHER = ("core/*.cpp", "plugins/*.cpp", "tools/*.cpp", "tests/distributed/*.cpp",
                     "tests/fuzz/targets/*.cpp", "tests/plugins/*_test.cpp", "tests/unit/*.cpp")
OVERLOADED_FOR_TYPES = {"to_json", "record_of", "operator"}


def helpers(text):
    """Names in the unnamed namespaces of a file, and its static functions. An alias is left out."""
    inside = False
    for line in text.split("\n"):
        if line.startswith("namespace {"):
            inside = True
        elif line.startswith("}  // namespace"):
            inside = False
        elif (inside or line.startswith("static ")) and re.match(r"(?!using namespace )[A-Za-z\[]", line):
            found = DECLARED.match(line)
            if found and not line.startswith(("namespace {", "return ")):
                kind, alias, name = found.groups()
                if not alias:
                    yield kind or name


def clashes(files):
    folders = collections.defaultdict(lambda: collections.defaultdict(list))
    for file in files:
        # Highway's files are compiled alone.
        text = file.read_text()
        if "foreach_target" not in text:
            for name in set(helpers(text)) - OVERLOADED_FOR_TYPES:
                folders[file.parent][name].append(file.name)
    for folder, names in sorted(folders.items()):
        for name, where in sorted(names.items()):
            if len(where) > 1:
                yield (f"{folder}: '{name}' is a helper of {' and of '.join(sorted(where))}: "
                       "give one another name, or share it by a header")


def main():
    os.chdir(os.environ.get("OPTRUSH_SOURCE_DIR", "."))
    list_files = ["git", "-c", f"safe.directory={pathlib.Path.cwd()}", "ls-files", *COMPILED_TOGETHER]
    tracked = subprocess.run(list_files, capture_output=True, text=True)
    if tracked.returncode != 0:
        print("this is not a git checkout")
        return 77
    # Git lists a renamed file by its old name until the commit.
    files = [pathlib.Path(name) for name in tracked.stdout.split()]
    found = list(clashes([file for file in files if file.exists()]))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
