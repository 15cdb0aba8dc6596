"""Each relative link of the documentation leads to a file, and each anchor to a heading of the file.

Anchors follow GitHub's rules; mkdocs.yml makes mkdocs follow them as well.
"""

import os
import pathlib
import re
import subprocess
import sys

FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+(?:\([^()\s]*\)[^()\s]*)*)\)")
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)
CODE = re.compile(r"`[^`\n]+`")


def anchors(text):
    """The anchors of a page's headings, as GitHub names them; equal ones are numbered."""
    seen = {}
    for heading in HEADING.findall(FENCE.sub("", text)):
        heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        number = seen.get(name, 0)
        seen[name] = number + 1
        yield f"{name}-{number}" if number else name


def broken(page, known):
    text = page.read_text()
    for target in LINK.findall(CODE.sub("", FENCE.sub("", text))):
        if re.match(r"[a-z][a-z+.-]*:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page.resolve()
        if not file.is_relative_to(pathlib.Path.cwd()):
            yield f"{page}: {target} is outside of the repository"
        elif not file.exists():
            yield f"{page}: {target}: there is no such file"
        elif file.is_dir():
            yield f"{page}: {target} is a folder: link to a file in it"
        elif anchor:
            if file.suffix != ".md":
                yield f"{page}: {target}: only pages have anchors"
            elif anchor not in known.setdefault(file, set(anchors(file.read_text()))):
                yield f"{page}: {target}: no heading has this anchor"


def main():
    os.chdir(os.environ.get("OPTRUSH_SOURCE_DIR", "."))
    git = ["git", "-c", f"safe.directory={pathlib.Path.cwd()}", "ls-files"]
    options = ["--cached", "--others", "--exclude-standard", "*.md"]
    tracked = subprocess.run([*git, *options], capture_output=True, text=True)
    if tracked.returncode != 0:
        print("this is not a git checkout")
        return 77
    pages = [pathlib.Path(name) for name in tracked.stdout.splitlines()]
    # A committed report keeps its links as written. Its pictures must exist.
    pages = [page for page in pages if page.exists() and "fixtures" not in page.parts]
    known = {}
    found = [line for page in pages for line in broken(page, known)]
    print("\n".join(found) or f"{len(pages)} pages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
