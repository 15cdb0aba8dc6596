"""docs/reference/environment.md lists exactly the variables OPTRUSH_* that programs, scripts and the build use."""

import os
import pathlib
import re
import sys

ROOT = pathlib.Path(os.environ.get("OPTRUSH_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
PAGE = "docs/reference/environment.md"
FOLDERS = ("core", "plugins", "scripts", "packaging", "experiments", "bench", "setup")
ENDINGS = {".cpp", ".h", ".py", ".sh", ".lua", ".sbatch"}
# A quoted name, alone or with its value; a variable of the shell.
READ = re.compile(r"""["'](OPTRUSH_[A-Z0-9_]+)["'=]|\$\{?(OPTRUSH_[A-Z0-9_]+)""")
CMAKE = re.compile(r"(?:option\(|set\()(OPTRUSH_[A-Z0-9_]+) (?:\"[^\"]*\" (?:ON|OFF)|\"[^\"]*\" CACHE)")
OF_TESTS = {"OPTRUSH_SOURCE_DIR", "OPTRUSH_BUILD_DIR", "OPTRUSH_UPDATE_GOLDENS", "OPTRUSH_TEST_DEVICE",
            "OPTRUSH_OTHER_TORCH"}


def read_names(text):
    return {first or second for first, second in READ.findall(text)}


def main():
    files = [ROOT / "optrush"]
    files += [file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.suffix in ENDINGS]
    of_code = set().union(*(read_names(file.read_text()) for file in files))
    of_code |= set(CMAKE.findall((ROOT / "CMakeLists.txt").read_text())) | OF_TESTS
    on_page = set(re.findall(r"OPTRUSH_[A-Z0-9_]+", (ROOT / PAGE).read_text()))
    found = [f"{PAGE} lacks {name}" for name in sorted(of_code - on_page)]
    found += [f"{PAGE} lists {name}, which nothing reads" for name in sorted(on_page - of_code)]
    print("\n".join(found) or f"{len(on_page)} variables")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
