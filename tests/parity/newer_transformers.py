"""newer_transformers.py PROGRAM...: runs a Python program with a newer transformers than the other tests.

The newer version has an environment in the build folder, which uses the tests' torch. Without a package index the test
is skipped."""
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile

TRANSFORMERS = "transformers==5.23.0"
ENVIRONMENT = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]) / "tests" / TRANSFORMERS.replace("==", "-")


def make_environment(folder):
    """Returns "" or the reason of a failure. Its packages come before the tests' packages, which include torch."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python3.*/site-packages"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile",
               "--target", site, TRANSFORMERS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (site / "tests.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return done.stderr.strip()[-400:] if done.returncode != 0 else ""


def newer_python():
    """The environment's Python. Ends the test as skipped if the version cannot be installed."""
    if not ENVIRONMENT.exists():
        with tempfile.TemporaryDirectory(dir=ENVIRONMENT.parent) as scratch:
            made = pathlib.Path(scratch) / "environment"
            if why := make_environment(made):
                print(f"{TRANSFORMERS} cannot be installed: {why}")
                sys.exit(77)
            made.rename(ENVIRONMENT)
    return ENVIRONMENT / "bin/python"


if __name__ == "__main__":
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    os.execv(newer_python(), [newer_python(), *sys.argv[1:]])
