"""Folders become plugins without being listed, and the hash of the SDK's headers follows their contents.

The test runs the real CMake functions in a small project; its plugins export one function and link nothing.
"""
import ctypes
import os
import pathlib
import subprocess
import tempfile
import time

SOURCE, CMAKE = pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"]), os.environ["OPTRUSH_CMAKE"]
PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(Folders VERSION 0.1.0 LANGUAGES CXX)
list(APPEND CMAKE_MODULE_PATH {SOURCE}/cmake)
set(OPTRUSH_INSTALL_PLUGINS plugins)
add_library(optrush_core INTERFACE)
add_library(optrush_warnings INTERFACE)
add_custom_target(optrush-plugins ALL)
include(OptRushPlugin)
include(OptRushEmbed)
include(OptRushPluginFolder)
optrush_add_plugin_folders(optimizations)
optrush_add_plugin_folders(parallelism)
"""


def run(*command, fails=False):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    output = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, f"{command}: {done.returncode}\n{output}"
    return output


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def answer(text):
    return f'extern "C" [[gnu::visibility("default")]] int answer() {{ return {text}; }}\n'


def answer_of(plugin):
    return ctypes.CDLL(str(plugin)).answer()


def folders_are_plugins(work):
    write(work / "CMakeLists.txt", PROJECT)
    write(work / "optimizations/alone/alone.cpp", answer(1))
    write(work / "optimizations/README.md", "no folder, so no plugin")
    (work / "optimizations/empty/__pycache__").mkdir(parents=True)
    # The large plugin has sources below the folder, embedded texts, and a CMakeLists.txt with further settings.
    write(work / "optimizations/large/large.cpp", '#include "deep/part.h"\n' + answer("part()"))
    write(work / "optimizations/large/deep/part.h", "#pragma once\nint part();\n")
    write(work / "optimizations/large/deep/part.cpp",
          '#include "deep/part.h"\n#include "big_kernel_cu.h"\n#include "tool_py.h"\n'
          "int part() { return ADDED + sizeof(kBigKernelCu) + sizeof(kToolPy); }\n")
    write(work / "optimizations/large/gpu/big_kernel.cu", "1234")
    write(work / "optimizations/large/tool.py", "12345")
    write(work / "optimizations/large/CMakeLists.txt", "target_compile_definitions(large_parts PRIVATE ADDED=100)\n")
    build = work / "build"
    run(CMAKE, "-G", "Ninja", "-S", work, "-B", build)
    run(CMAKE, "--build", build)
    assert {file.name for file in (build / "plugins").iterdir()} == {"alone.so", "large.so"}
    assert answer_of(build / "plugins/alone.so") == 1 and answer_of(build / "plugins/large.so") == 100 + 5 + 6

    # The next build finds folders that were added after the configuration, also in a kind that had none.
    write(work / "optimizations/later/later.cpp", answer(2))
    write(work / "parallelism/ranks/ranks.cpp", answer(3))
    run(CMAKE, "--build", build)
    assert answer_of(build / "plugins/later.so") == 2 and answer_of(build / "plugins/ranks.so") == 3

    write(work / "optimizations/misnamed/other.cpp", answer(4))
    output = run(CMAKE, "--build", build, fails=True)
    # CMake breaks lines between words, which depends on the length of the path.
    assert "misnamed has sources, but no misnamed.cpp" in " ".join(output.split()), output


def the_hash_follows_the_headers(work):
    headers, result = work / "headers", work / "sdk_hash.h"

    def hash_now():
        run(CMAKE, f"-DHEADERS={headers}", f"-DRESULT={result}", "-P", SOURCE / "cmake/sdk_hash.cmake")
        return result.read_text()

    write(headers / "a.h", "int a;\n")
    write(headers / "b.h", "int b;\n")
    first, written = hash_now(), result.stat().st_mtime_ns
    time.sleep(0.02)
    (headers / "a.h").touch()
    assert hash_now() == first and result.stat().st_mtime_ns == written, "a touched header changes nothing"
    seen = {first}
    for change in (lambda: write(headers / "a.h", "int a2;\n"), lambda: (headers / "b.h").rename(headers / "c.h"),
                   lambda: write(headers / "d.h", "")):
        change()
        assert hash_now() not in seen
        seen.add(result.read_text())
    (headers / "d.h").unlink()
    (headers / "c.h").rename(headers / "b.h")
    write(headers / "a.h", "int a;\n")
    assert hash_now() == first


for case in (folders_are_plugins, the_hash_follows_the_headers):
    with tempfile.TemporaryDirectory() as folder:
        case(pathlib.Path(folder))
    print(case.__name__, "passed", flush=True)
