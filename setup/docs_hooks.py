"""Hooks of mkdocs (mkdocs.yml).

Links of the pages to files outside of docs/ (experiments, reports, the README) work in a checkout and on a forge. The
build copies these files to `source/`, Markdown files as pages. A folder in the navigation stands for its pages.
"""

import pathlib
import posixpath
import re

from mkdocs.structure.files import File, InclusionLevel

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"(^```.*?^```[^\n]*$)", re.MULTILINE | re.DOTALL)


def outside(page, link):
    """The path of a file of the repository to which a link of a page leads, if it is not below docs/."""
    if re.match(r"[a-z]+:", link):
        return None
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return path if not path.startswith("docs/") and (ROOT / path).is_file() else None


def links(text):
    for part in FENCE.split(text)[::2]:
        yield from (match[2] for match in LINK.finditer(part))


def place(path):
    return "source/" + path


def on_files(files, config):
    """Adds the files to which pages link, and the files to which these pages link."""
    todo = [(file.src_uri, file.content_string) for file in files if file.src_uri.endswith(".md")]
    added = set()
    while todo:
        page, text = todo.pop()
        for link in links(text):
            path = outside(page, link)
            if path is None or path in added:
                continue
            added.add(path)
            markdown = path.endswith(".md")
            file = File.generated(config, place(path), abs_src_path=str(ROOT / path),
                                  inclusion=InclusionLevel.NOT_IN_NAV if markdown else InclusionLevel.INCLUDED)
            files.append(file)
            if markdown:
                todo.append(("../" + path, (ROOT / path).read_text()))
    return files


def on_config(config):
    config.nav = [expanded(entry, pathlib.Path(config.docs_dir)) for entry in config.nav]
    return config


def expanded(entry, docs):
    """Expands `Plugins: plugins/` to the pages of that folder, with index.md first, and its folders to sections."""
    if isinstance(entry, dict):
        ((title, content),) = entry.items()
        if isinstance(content, list):
            return {title: [expanded(inner, docs) for inner in content]}
        if isinstance(content, str) and content.endswith("/"):
            return {title: pages(docs / content, docs)}
    return entry


def pages(folder, docs):
    here = sorted(folder.glob("*.md"), key=lambda page: (page.name != "index.md", page.name))
    found = [page.relative_to(docs).as_posix() for page in here]
    for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
        found.append({inner.name.capitalize(): pages(inner, docs)})
    return found


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    copied = uri.startswith("source/")
    origin = "../" + uri.removeprefix("source/") if copied else uri

    def target(match):
        path = outside(origin, match[2])
        if path is None:
            if not copied or re.match(r"[a-z]+:", match[2]):
                return match[0]
            path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(origin), match[2]))
            inside = path.removeprefix("docs/")
            if path == inside or files.get_file_from_path(inside) is None:
                return match[0]
            return match[1] + posixpath.relpath(inside, posixpath.dirname(uri)) + (match[3] or "") + match[4]
        return match[1] + posixpath.relpath(place(path), posixpath.dirname(uri) or ".") + (match[3] or "") + match[4]

    parts = FENCE.split(markdown)
    parts[::2] = [LINK.sub(target, part) for part in parts[::2]]
    return "".join(parts)
