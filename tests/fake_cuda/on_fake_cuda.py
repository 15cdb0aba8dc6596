"""on_fake_cuda.py [--arch sm_90] [--memory BYTES] [--devices N] [--report FILE] [--] COMMAND...: runs a command on a
stand-in for a GPU.

The stand-in runs the host side of CUDA programs on a machine without a GPU. It computes nothing: no number of such a
run is a measurement. Caches of compiled code get a folder that is removed at the end, because a compiler that folds
constants on the device would store wrong ones."""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

BUILD = Path(os.environ.get("OPTRUSH_BUILD_DIR", Path(__file__).resolve().parents[2] / "build"))
LIBRARIES = BUILD / "tests" / "fake_cuda"


def refuse(why):
    print(f"on_fake_cuda: {why}", file=sys.stderr)
    sys.exit(2)


def check_torch():
    """The generated functions fit one torch; another torch may need functions that they lack."""
    built_for = (LIBRARIES / "torch.txt").read_text().strip()
    chosen = os.environ.get("OPTRUSH_TORCH")
    if chosen and Path(chosen).resolve() != Path(built_for).resolve():
        refuse(f"the stand-in was built for {built_for}, OPTRUSH_TORCH is {chosen}. "
               "Build against that torch, or unset the variable.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--arch", default="sm_90", choices=["sm_80", "sm_90", "sm_100"])
    parser.add_argument("--memory", default="", help="bytes of each device (standard: what such a card reports)")
    parser.add_argument("--devices", default="1", help="1 to 8")
    parser.add_argument("--report", default="",
                        help="a file: each process appends a line of JSON with its counts and faults")
    parser.add_argument("--trace", default="", help="a file: each launch and call in its order")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not command:
        parser.error("no command")
    if not (LIBRARIES / "libcuda.so.1").exists():
        refuse(f"{LIBRARIES / 'libcuda.so.1'} is missing. Build it: ninja -C build fake_cuda")
    check_torch()
    with tempfile.TemporaryDirectory(prefix="fake_cuda_") as folder:
        environment = dict(
            os.environ,
            FAKE_CUDA="1", FAKE_CUDA_ARCH=given.arch, FAKE_CUDA_DEVICES=given.devices,
            FAKE_CUDA_MEMORY=given.memory or os.environ.get("FAKE_CUDA_MEMORY", ""),
            FAKE_CUDA_REPORT=os.path.abspath(given.report) if given.report else "",
            FAKE_CUDA_TRACE=os.path.abspath(given.trace) if given.trace else "",
            FAKE_CUDA_NCCL=os.environ.get("FAKE_CUDA_NCCL") or f"{folder}/nccl",
            LD_PRELOAD=str(LIBRARIES / "libcuda.so.1"),
            LD_LIBRARY_PATH=f"{LIBRARIES}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":"),
            OPTRUSH_CACHE=f"{folder}/optrush", XDG_CACHE_HOME=f"{folder}/xdg", TRITON_CACHE_DIR=f"{folder}/triton",
            TORCHINDUCTOR_CACHE_DIR=f"{folder}/inductor")
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)


main()
