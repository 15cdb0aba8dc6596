"""Every Error in core and tools names its code (core/include/optrush/error_code.h); only plugins may leave it out."""

import os
import pathlib
import re
import subprocess
import sys

# The first argument is a code, the code of another error, or an expression that chooses a code.
THROWN = re.compile(r"\b(?:throw|return)\s+(?:optrush::)?Error\("
                    r"(?!\s*(?:(?:optrush::)?ErrorCode::|e\.code\(\)|kind,|\w+ == ENOENT \?))")
# A class of errors names its code once. If it inherited all constructors of Error, it would have a plugin's code.
INHERITED = re.compile(r"\busing Error::Error;")


def without_code(text):
    for found in [*THROWN.finditer(text), *INHERITED.finditer(text)]:
        yield text.count("\n", 0, found.start()) + 1, " ".join(text[found.start() : found.start() + 100].split())


def main():
    os.chdir(os.environ.get("OPTRUSH_SOURCE_DIR", "."))
    list_files = ["git", "-c", f"safe.directory={os.getcwd()}", "ls-files", "core", "tools"]
    listed = subprocess.run(list_files, capture_output=True, text=True)
    if listed.returncode != 0:
        print("this is not a git checkout")
        return 77
    assert list(without_code('throw Error("no")')) and list(without_code("using Error::Error;"))
    assert not list(without_code('throw Error(ErrorCode::usage, "no")'))
    failed = False
    for path in listed.stdout.split():
        # The first two define Error. Git lists a renamed file by its old name until the commit.
        if path in ("core/base/error.cpp", "core/include/optrush/error.h"):
            continue
        if not path.endswith((".h", ".cpp", ".cu")) or not pathlib.Path(path).exists():
            continue
        for line, words in without_code(pathlib.Path(path).read_text()):
            print(f"{path}:{line}: an Error without a code: {words}")
            failed = True
    return int(failed)


sys.exit(main())
