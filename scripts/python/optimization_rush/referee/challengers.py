"""What a challenger is: one string.

    rush.rung("FlashAttention", "flash_attention")     an expression of Lua, on the champion's stack
    fused_adamw      lora:rank=8                       a plugin with options
    --batch 8                                          flags of the champion's program
    OMP_NUM_THREADS=1 NAME=value                       environment variables
    train_2.py                                         a file in the place of the program's script
    venv-2, lock.txt                                   an environment for the program's Python
    my_plugin/                                         the source folder of a plugin, which is built
"""
import hashlib
import json
import pathlib
import re
import shlex
from typing import Any, Dict, List, Optional

from .lua import command, literal
from .session import Champion


class Refused(Exception):
    """A challenger or a command that cannot be understood. `code`: a code of docs/reference/errors.md."""

    def __init__(self, message: str, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.code = code


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PLUGIN = re.compile(r"([a-z][a-z0-9_]*)(?::(.*))?$", re.DOTALL)


def _hash(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:16]


def folder_hash(folder: pathlib.Path) -> str:
    """Of the names and bytes of the files, without build folders and hidden files."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and not any(
        part.startswith(".") or part == "build" for part in file.relative_to(folder).parts))
    return _hash(*(part for file in files
                   for part in (str(file.relative_to(folder)).encode(), file.read_bytes())))


def kind_of(text: str) -> str:
    if text.lstrip().startswith("rush."):
        return "lua"
    if text.startswith("-"):
        return "flags"
    if _VARIABLE.match(text):
        return "variables"
    path = pathlib.Path(text)
    if (path / "CMakeLists.txt").is_file():
        return "plugin_folder"
    if (path / "bin/python").exists():
        return "environment"
    if path.is_dir():
        raise Refused(f"{text} is a folder without CMakeLists.txt (a plugin's source) and without bin/python (a "
                      "virtual environment)")
    if path.is_file():
        return "file" if path.suffix == ".py" else "environment"
    if _PLUGIN.match(text):
        return "plugin"
    raise Refused(f"there is no file or folder '{text}', and it is not a plugin, variable, flag or rush.rung(...)",
                  "missing_file")


def described(text: str, effect: Optional[str], options: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    """The challenger as the log stores it, with a key that is equal for equal challengers."""
    text = text.strip()
    kind = kind_of(text)
    content = b""
    if kind == "plugin_folder":
        content = folder_hash(pathlib.Path(text)).encode()
    elif pathlib.Path(text).is_file():
        content = pathlib.Path(text).read_bytes()
    if kind in ("plugin_folder", "environment", "file"):
        path = str(pathlib.Path(text).absolute())
    else:
        path = ""
    key = _hash(kind.encode(), (path or text).encode(), content, (effect or "").encode(),
                json.dumps(options or {}, sort_keys=True).encode())
    return {"text": text, "kind": kind, "key": key, **({"path": path} if path else {}),
            **({"effect": effect} if effect else {}), **({"options": options} if options else {})}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _options(text: str) -> Dict[str, Any]:
    """rank=4,modules=a,b: an item without "=" belongs to the list before it."""
    options: Dict[str, Any] = {}
    name = ""
    for item in filter(None, text.split(",")):
        if "=" in item:
            name, _, value = item.partition("=")
            options[name] = _value(value)
        elif name:
            options[name] = [*(options[name] if isinstance(options[name], list) else [options[name]]), _value(item)]
        else:
            raise Refused(f"'{item}' is not an option: write NAME=VALUE")
    return options


def program_command(champion: Champion, text: str) -> List[str]:
    if not champion.external:
        raise Refused(f"the champion trains a model of Optimization Rush, so '{text}' cannot change a program; give a "
                      "plugin or rush.rung(...)", "conflict")
    return command(champion.external)


def with_script(words: List[str], file: str) -> List[str]:
    """The command with another script."""
    scripts = [place for place, word in enumerate(words) if word.endswith(".py")]
    if not scripts:
        raise Refused(f"the champion's command has no script that {file} could replace: {shlex.join(words)}",
                      "conflict")
    return [*words[:scripts[0]], file, *words[scripts[0] + 1:]]


def with_python(words: List[str], python: str) -> List[str]:
    if words[0] != "{python}" and not pathlib.Path(words[0]).name.startswith("python"):
        raise Refused(f"the champion's command does not begin with a Python: {shlex.join(words)}", "conflict")
    return [python, *words[1:]]


def rung(challenger: Dict[str, Any], champion: Champion, python: Optional[str] = None,
         built: Optional[str] = None) -> str:
    """The rung as an expression of Lua. `python`: of an environment. `built`: the plugin of a folder."""
    text, kind = challenger["text"], challenger["kind"]
    effect = [f"effect = {literal(challenger['effect'])}"] if "effect" in challenger else []
    name = literal(" ".join(text.split()))
    if kind == "lua":
        return str(text)
    if kind == "plugin":
        plugin, options = _PLUGIN.match(text).groups()  # type: ignore[union-attr]
        given = {**_options(options or ""), **challenger.get("options", {})}
        return f"rush.rung({name}, {literal(plugin)}, {literal(given)})"
    if kind == "plugin_folder":
        before = champion.plugin
        names = (built or "", challenger.get("options", {}))
        replaced = [before["built"]] if before and before["name"] == challenger["plugin"] else []
        replaced += [use["name"] for use in champion.spec["plugins"] if use["name"] == challenger["plugin"]]
        return (f"rush.rung({name}, {literal(names[0])}, {literal(names[1])}" +
                (f", {{ replace = {literal(replaced)} }})" if replaced else ")"))
    words = program_command(champion, text) if kind != "variables" or champion.external else []
    if kind == "variables":
        variables = dict(word.partition("=")[::2] for word in shlex.split(text))
        fields = [f"env = {literal(variables)}"]
        effect = effect if words else []
    elif kind == "flags":
        fields = [f"args = {literal(shlex.split(text))}"]
    elif kind == "file":
        fields = [f"command = {literal(with_script(words, challenger['path']))}"]
    else:
        fields = [f"command = {literal(with_python(words, python or ''))}"]
    return f"rush.rung({name}, {{ {', '.join(fields + effect)} }})"

