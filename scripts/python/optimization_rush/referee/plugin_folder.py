"""Builds the source folder of a plugin under a name that no other version has."""
import json
import pathlib
import re
import shutil
import subprocess
from typing import List, Tuple

_DESCRIPTION = re.compile(r'OPTRUSH_PLUGIN\(\s*\w+\s*,\s*R"(\w*)\((.*?)\)\1"', re.DOTALL)
_TEXTS = {".cpp", ".h", ".txt", ".cmake", ".lua", ".cu", ".cuh", ".py"}


class BuildFailed(Exception):
    pass


def plugin_name(folder: pathlib.Path) -> str:
    """The name that the source declares."""
    for file in sorted(folder.rglob("*.cpp")):
        if found := _DESCRIPTION.search(file.read_text(encoding="utf-8", errors="replace")):
            try:
                return str(json.loads(found[2])["name"])
            except (ValueError, KeyError):
                raise BuildFailed(f"{file}: the description of the plugin is not JSON with a name") from None
    raise BuildFailed(f"{folder}: no .cpp file has OPTRUSH_PLUGIN(...)")


def _copy(source: pathlib.Path, target: pathlib.Path, old: str, new: str) -> None:
    """Copies a project. The name of the plugin changes as a whole word, in texts and in names of files."""
    word = re.compile(rf"\b{re.escape(old)}\b")
    for file in sorted(source.rglob("*")):
        place = file.relative_to(source)
        if not file.is_file() or any(part.startswith(".") or part == "build" for part in place.parts):
            continue
        copied = target / word.sub(new, str(place))
        copied.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix in _TEXTS:
            copied.write_text(word.sub(new, file.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            shutil.copy2(file, copied)


def build(source: pathlib.Path, folder: pathlib.Path, version: str, program: List[str]) -> Tuple[str, str, str]:
    """Builds a copy in `folder`. Returns the plugin's name, its name in this build, and the folder with its file.
    Two versions of a plugin can so be measured in one round."""
    name = plugin_name(source)
    new = f"{name}_{version[:8]}"
    plugins = folder / "build/plugins"
    if (plugins / f"{new}.so").is_file():
        return name, new, str(plugins)
    shutil.rmtree(folder, ignore_errors=True)
    _copy(source, folder / "source", name, new)
    prefix = subprocess.run([*program, "sdk"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    for words in (["cmake", "-S", str(folder / "source"), "-B", str(folder / "build"), f"-DCMAKE_PREFIX_PATH={prefix}"],
                  ["cmake", "--build", str(folder / "build")]):
        try:
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except FileNotFoundError:
            raise BuildFailed("cmake is not installed; install it (apt-get install cmake g++)") from None
        if done.returncode != 0:
            told = done.stdout.replace(f"{folder / 'source'}/", "").replace(new, name)  # places in the user's source
            errors = [line for line in told.splitlines() if re.search(r"\berror:|CMake Error", line)]
            raise BuildFailed("\n".join(errors[:5]) or told[-2000:])
    if not (plugins / f"{new}.so").is_file():
        raise BuildFailed(f"the build made no plugins/{new}.so; CMakeLists.txt must call optrush_add_plugin({name} "
                          "...)")
    return name, new, str(plugins)
