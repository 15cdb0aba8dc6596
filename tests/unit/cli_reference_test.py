"""docs/reference/cli.md has the --help of each command. OPTRUSH_UPDATE_GOLDENS=1 writes it."""

import difflib
import os
import pathlib
import re
import subprocess
import sys

BUILD, SOURCE = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]), pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
PAGE = SOURCE / "docs/reference/cli.md"
HEAD = """# Command line

This page is generated from `optrush COMMAND --help`. In a clone the program is `./optrush`, which also has the commands
`setup`, `test`, `wheel` and `docs`: `./optrush --help` lists them. [Running](../guides/running.md) explains the \
options of `run`.

"""


def help_text(*words):
    # The output must not depend on the width of the terminal.
    environment = {**os.environ, "COLUMNS": "120"}
    done = subprocess.run([BUILD / "bin/optrush", *words], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"optrush {' '.join(words)}: exit code {done.returncode}\n{done.stderr}"
    return done.stdout.rstrip()


def commands(text):
    """The names of the commands, as the program lists them."""
    part = re.search(r"^(?:SUBCOMMANDS|Subcommands|Commands):\n(.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    assert part, f"--help lists no commands:\n{text}"
    return re.findall(r"^ {1,4}([a-z][\w-]*)", part[1], re.MULTILINE)


def page():
    listed = help_text("--help")
    text = HEAD + f"```text\n{listed}\n```\n"
    for name in commands(listed):
        text += f"\n## {name}\n\n```text\n{help_text(name, '--help').strip()}\n```\n"
    return text


def main():
    new = page()
    if os.environ.get("OPTRUSH_UPDATE_GOLDENS"):
        PAGE.write_text(new)
    old = PAGE.read_text()
    if old != new:
        before, after = old.splitlines(True), new.splitlines(True)
        sys.stdout.writelines(difflib.unified_diff(before, after, "cli.md", "the programs"))
        sys.exit("OPTRUSH_UPDATE_GOLDENS=1 writes the page anew")


main()
