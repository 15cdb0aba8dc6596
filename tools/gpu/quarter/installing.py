"""Unpacks the bundle and lays its packages out, without pip: a wheel is an archive of a package."""

import importlib.util
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

PACKAGE = "optimization_rush"


def unpacked(bundle, work):
    """The folder of a bundle, which may be its archive."""
    if bundle.is_dir():
        return bundle
    target = work / "bundle"
    shutil.rmtree(target, ignore_errors=True)
    with tarfile.open(bundle) as archive:
        archive.extractall(target, filter="data")
    return next(target.iterdir())


def install(bundle, work):
    """Lays out every wheel, with the test programs beside the programs of ours, so that they find its libraries and
    plugins. Returns the folder of packages, and ours."""
    site = work / "site"
    shutil.rmtree(site, ignore_errors=True)
    for wheel in [*bundle.glob("*.whl"), *bundle.glob("peers/*.whl")]:
        with zipfile.ZipFile(wheel) as opened:
            opened.extractall(site)
    package = site / PACKAGE
    for folder in ("bin", "lib"):
        for file in (bundle / "tests" / folder).glob("*"):
            shutil.copy2(file, package / folder)
    for file in (package / "bin").iterdir():
        file.chmod(0o755)
    return site, package


def environment_of(site, package, cache):
    """The environment of the programs. All compiled files are below `cache`, which the next call also has."""
    torch = Path(importlib.util.find_spec("torch").origin).parent
    libraries = [torch / "lib", *sorted(torch.parent.glob("nvidia/*/lib"))]
    given = os.environ.get("LD_LIBRARY_PATH", "")
    return {**os.environ, "PYTHONPATH": str(site), "PYTHONUNBUFFERED": "1", "OPTRUSH_CACHE": str(cache / "optrush"),
            "XDG_CACHE_HOME": str(cache / "xdg"), "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
            "TRITON_CACHE_DIR": str(cache / "triton"), "HF_HUB_OFFLINE": "1",
            "LD_LIBRARY_PATH": ":".join(filter(None, [given, f"{package}/lib", *map(str, libraries)]))}
