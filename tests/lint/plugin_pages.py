"""The generated parts of docs/plugins: each shipped plugin's facts and options, and the list of all of them.

Without arguments it compares the pages with the descriptions in the plugins' sources; with --write it writes them.
"""

import json
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(os.environ.get("OPTRUSH_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
PAGES = ROOT / "docs/plugins"
BEGIN, END = "<!-- made by tests/lint/plugin_pages.py: begin -->\n", "<!-- made by tests/lint/plugin_pages.py: end -->"


def descriptions(kind):
    """What each plugin of a folder says of itself, by name."""
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
        return {"boolean": "`true`, `false`", "string": "a string"}.get(option["type"], f"a {option['type']}")
    return f"{'an integer' if option['type'] == 'integer' else 'a number'} from {number(low)} to {number(high)}"


def number(value):
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def default(option):
    if "default" not in option:
        return "required"
    value = option["default"]
    return "empty" if value == "" else f"`{json.dumps(value)}`" if isinstance(value, list) else f"`{str(value).lower() if isinstance(value, bool) else value}`"


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
    """The effect, and what a stack must or must not have beside the plugin."""
    lines = [f"- Effect: [`{description['effect']}`](../concepts.md#effects)"]
    conflicts = set(description.get("conflicts", []))
    conflicts |= {other["name"] for other in everyone.values() if description["name"] in other.get("conflicts", [])}
    if description.get("requires"):
        lines.append(f"- Requires: {links(description['requires'])}")
    if conflicts:
        lines.append(f"- Conflicts with: {links(sorted(conflicts))}")
    if description.get("needs"):
        lines.append("- Needs of the machine: " + ", ".join(f"`{need}`" for need in description["needs"]))
    return "\n".join(lines) + "\n"


def with_generated(page, text):
    """The page with `text` between its markers."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        sys.exit(f"a page needs the lines\n{BEGIN}{END}\nonce each")
    head, _, rest = page.partition(BEGIN)
    return head + BEGIN + text + END + rest.partition(END)[2]


def pages():
    """Each page's path with the generated text that it should have."""
    kinds = {kind: descriptions(kind) for kind in ("optimizations", "parallelism")}
    everyone = {**kinds["optimizations"], **kinds["parallelism"]}
    index = ""
    for kind, found in kinds.items():
        index += f"### {'Optimizations' if kind == 'optimizations' else 'Parallelism'}\n\n| plugin | effect | what it does |\n|---|---|---|\n"
        for name, description in found.items():
            index += f"| [`{name}`](shipped/{name}.md) | `{description['effect']}` | {cell(description['summary'])} |\n"
        index += "\n"
    yield PAGES / "index.md", index
    for name, description in everyone.items():
        yield PAGES / f"shipped/{name}.md", facts(description, everyone) + "\n" + options_table(description)
    for page in PAGES.glob("shipped/*.md"):
        if page.stem not in everyone:
            sys.exit(f"{page} describes no plugin")


def main():
    stale = []
    for path, text in pages():
        if not path.exists():
            sys.exit(f"{path.relative_to(ROOT)} is missing: each plugin that ships has a page")
        old = path.read_text()
        new = with_generated(old, text)
        if old != new:
            stale.append(path)
            if "--write" in sys.argv[1:]:
                path.write_text(new)
    if stale and "--write" not in sys.argv[1:]:
        sys.exit("\n".join(f"{path.relative_to(ROOT)} is out of date" for path in stale)
                 + "\nwrite them: python tests/lint/plugin_pages.py --write")


main()
