"""Prints every string that a user may read, with its place, for a review: python messages.py [FOLDER...].

A line is `file:line: text`. Values of the program are in braces, and ` | ` separates the parts of a message (problem,
cure). It reads C++, Python and Lua below core, plugins, scripts, tools and experiments: literals that have a blank
between words, the "summary" and "doc" of plugins, and the `---` comments of scripts/meta, which editors show.
"""

import ast
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ["core", "plugins", "scripts", "tools", "experiments"]
TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|\#\s*include[^\n]*)
    |R"(?P<mark>[^\s()\\]*)\((?P<raw>.*?)\)(?P=mark)"
    |"(?P<string>(?:[^"\\\n]|\\.)*)"
    |'(?:[^'\\\n]|\\.)+'
    |[A-Za-z0-9_.]+|->|::|<<|.""",
    re.VERBOSE | re.DOTALL,
)
PROSE = re.compile(r"\w\S* \S*[a-z]|[a-z]\S* \S*\w")


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def described(description, line):
    """(line, text) of the texts in a plugin's description."""
    data = json.loads(description)
    yield line, f'{data["name"]}: {data["summary"]}'
    for option in data.get("options", []):
        yield line, f'{data["name"]}.{option["name"]}: {option["doc"]}'


def value_of(tokens):
    """The code between two literals as a value in braces, without code that only opens a call or a condition."""
    value = ""
    for text in tokens:
        value += (" " if value[-1:].isalnum() and text[:1].isalnum() else "") + text
    depth = 0
    for at in range(len(value) - 1, -1, -1):
        depth += (value[at] == ")") - (value[at] == "(")
        if depth < 0:
            value = value[at + 1 :]
            break
    value = re.sub(r"^.*(\breturn\b|[^=!<>]=(?!=)|<<)|^\)+", "", value).strip("+<> ")
    return "{" + value + "}" if value.strip("():?,.") else ""


def part(tokens):
    """One argument of a call: its literals and the values between them; "" if it has no literal."""
    said, between, prose = "", [], False
    for text, literal in [*tokens, ("", "")]:
        if literal is None:
            between.append(text)
            continue
        prose = prose or bool(literal)
        said += value_of(between) + literal
        between = []
    return said if prose else ""


def cpp(text):
    statement, parts, start = [], [], None

    def flush():
        nonlocal statement, parts, start
        parts.append(part(statement))
        said = " | ".join(p for p in parts if p)
        if start is not None and PROSE.search(said):
            yield start, said
        statement, parts, start = [], [], None

    for found in TOKEN.finditer(text):
        token, line = found.group(), line_of(text, found.start())
        if found["skip"] is not None:
            continue
        literal = found["raw"] if found["raw"] is not None else found["string"]
        if literal is not None and found["mark"] == "json" and '"summary"' in literal:
            yield from described(literal, line)
        elif literal is not None:
            start = start or line
            statement.append((token, literal.replace('\\"', '"').replace("\\n", " ")))
        elif token in ";{}":
            yield from flush()
        elif token == ",":
            parts.append(part(statement))
            statement = []
        else:
            statement.append((token, None))
    yield from flush()


def python(text):
    tree = ast.parse(text)
    docs = {id(node.body[0].value) for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and isinstance(node.body[0], ast.Expr)}
    inner = {id(piece) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for piece in node.values}
    for node in ast.walk(tree):
        if id(node) in docs or id(node) in inner:
            continue
        if isinstance(node, ast.JoinedStr):
            said = "".join(piece.value if isinstance(piece, ast.Constant) else "{" + ast.unparse(piece.value) + "}"
                           for piece in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            said = node.value
        else:
            continue
        if PROSE.search(said):
            yield node.lineno, said


def lua(text, is_meta):
    for number, line in enumerate(text.splitlines(), 1):
        if is_meta and line.startswith("---"):
            yield number, line[3:]
        for said in re.findall(r'"((?:[^"\\]|\\.)*)"', line.split("--")[0]):
            if PROSE.search(said):
                yield number, said


def messages(file):
    text = file.read_text()
    if file.suffix in {".cpp", ".h", ".cu", ".cuh"}:
        return cpp(text)
    if file.suffix == ".py":
        return python(text)
    return lua(text, "meta" in file.parts)


def main(folders):
    for folder in folders or FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in {".cpp", ".h", ".cu", ".cuh", ".py", ".lua"}:
                for line, said in messages(file):
                    print(f"{file.relative_to(ROOT)}:{line}: {' '.join(said.split())}")


if __name__ == "__main__":
    main(sys.argv[1:])
