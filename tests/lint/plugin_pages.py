"""The generated parts of docs/plugins: the facts and options of each shipped plugin, the list of all plugins, and the
optimizer that `optrush new-plugin` writes.

Without arguments it compares the pages with the descriptions in the plugins' sources. --write updates the pages, and
adds a page to fill in for a plugin without one.
"""

import json
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(os.environ.get("OPTRUSH_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
PAGES = ROOT / "docs/plugins"
SWITCHES = ROOT / "docs/guides/in_your_own_code.md"
BEGIN, END = "<!-- made by tests/lint/plugin_pages.py: begin -->\n", "<!-- made by tests/lint/plugin_pages.py: end -->"

NEW_PAGE = """# {name}

What it does, in two to four sentences, with the paper: [arXiv:0000.00000](https://arxiv.org/abs/0000.00000).

## Effect and options

{begin}{end}

## When it pays

When it pays, and when it does not.

## With other plugins

What it needs beside it, replaces and refuses.

[Compatibility](../compatibility.md) has every pair with the strategies for several ranks.

## Measured

One line, with the report that has it. Not measured yet.
"""


def descriptions(kind):
    """{name: description} of the plugins in a folder."""
    found = {}
    for source in sorted((ROOT / "plugins" / kind).glob("*/*.cpp")):
        for text in re.findall(r'OPTRUSH_PLUGIN\(\w+, R"json\((.*?)\)json"\)', source.read_text(), re.DOTALL):
            description = json.loads(text)
            found[description["name"]] = description
    return found


def allowed(option):
    low, high = option.get("min"), option.get("max")
    if "choices" in option:
        words = ", ".join(f"`{choice}`" for choice in option["choices"])
        return f"a list of {words}" if option["type"] == "list" else words
    if option["type"] == "list":
        return "a list of strings"
    if low is None and high is None:
        words = {"boolean": "`true`, `false`", "string": "a string", "folder": "a folder"}
        return words.get(option["type"], f"a {option['type']}")
    if option["type"] in ("integers", "numbers"):
        return f"a table of {option['type']} from {number(low)} to {number(high)} by name"
    return f"{'an integer' if option['type'] == 'integer' else 'a number'} from {number(low)} to {number(high)}"


def number(value):
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def default(option):
    if "default" not in option:
        return "required"
    value = option["default"]
    if value == "":
        return "empty"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def links(names, folder=""):
    return ", ".join(f"[`{name}`]({folder}{name}.md)" for name in names)


def options_table(description):
    if not description.get("options"):
        return "No options.\n"
    table = "| option | allowed | default | meaning |\n|---|---|---|---|\n"
    for option in description["options"]:
        meaning = cell(option["doc"])
        for choice, effect in option.get("effects", {}).items():
            meaning += f". `{choice}` has the effect `{effect}`"
        table += f"| `{option['name']}` | {allowed(option)} | {default(option)} | {meaning} |\n"
    return table


def facts(description, everyone):
    """The effect, and the plugins that a stack must or must not have with this one."""
    lines = [f"- Effect: [`{description['effect']}`](../concepts.md#effects)"]
    conflicts = set(description.get("conflicts", []))
    conflicts |= {other["name"] for other in everyone.values() if description["name"] in other.get("conflicts", [])}
    if description.get("requires"):
        lines.append(f"- Requires: {links(description['requires'])}")
    if conflicts:
        lines.append(f"- Conflicts with: {links(sorted(conflicts))}")
    if description.get("needs"):
        lines.append("- Needs of the machine: " + ", ".join(f"`{need}`" for need in description["needs"]))
    lines.append("- In other programs: [In your own code](../../guides/in_your_own_code.md)")
    return "\n".join(lines) + "\n"


def rows_that_differ(everyone):
    """The plugins without exactly one row in the table of switches, and rows of other plugins."""
    rows = re.findall(r"^\| \[`(\w+)`\]", SWITCHES.read_text(), re.MULTILINE)
    return sorted({name for name in {*rows, *everyone} if rows.count(name) != 1 or name not in everyone})


def with_generated(page, text):
    """The page with `text` between its markers."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        sys.exit(f"a page needs the lines\n{BEGIN}{END}\nonce each")
    head, _, rest = page.partition(BEGIN)
    return f"{head}{BEGIN}\n{text.strip()}\n\n{END}{rest.partition(END)[2]}"


def new_optimizer():
    """What `optrush new-plugin signum --optimizer` writes. tests/plugins/documented has the same, and tests it."""
    text = (ROOT / "scripts/new_plugin/optimizer_plugin.cpp.in").read_text()
    return text.replace("@class@", "Signum").replace("@name@", "signum")


def pages():
    """(path, generated text) of each page."""
    kinds = {kind: descriptions(kind) for kind in ("optimizations", "parallelism")}
    everyone = {**kinds["optimizations"], **kinds["parallelism"]}
    index = ""
    for kind, found in kinds.items():
        title = "Optimizations" if kind == "optimizations" else "Parallelism"
        index += f"### {title}\n\n| plugin | effect | what it does |\n|---|---|---|\n"
        for name, description in found.items():
            index += f"| [`{name}`](shipped/{name}.md) | `{description['effect']}` | {cell(description['summary'])} |\n"
        index += "\n"
    yield PAGES / "index.md", index
    yield PAGES / "optimizer.md", f"```cpp\n{new_optimizer()}```"
    for name, description in everyone.items():
        yield PAGES / f"shipped/{name}.md", facts(description, everyone) + "\n" + options_table(description)
    for page in PAGES.glob("shipped/*.md"):
        if page.stem not in everyone:
            sys.exit(f"{page} describes no plugin")
    if differ := rows_that_differ(everyone):
        sys.exit(f"{SWITCHES.relative_to(ROOT)} needs one row for each plugin: {', '.join(differ)}")


def main():
    write = "--write" in sys.argv[1:]
    stale = []
    for path, text in pages():
        old = path.read_text() if path.exists() else NEW_PAGE.format(name=path.stem, begin=BEGIN, end=END)
        new = with_generated(old, text)
        if path.exists() and old == new:
            continue
        stale.append(f"{path.relative_to(ROOT)} is {'out of date' if path.exists() else 'missing'}")
        if write:
            path.write_text(new)
    if stale and not write:
        sys.exit("\n".join(stale) + "\nwrite them: python tests/lint/plugin_pages.py --write")


main()
