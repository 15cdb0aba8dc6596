"""`optrush bisect`: the search alone, and with a slowdown planted among sixteen packages."""
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

from support import BUILD, SOURCE

sys.path.insert(0, str(SOURCE / "scripts/python"))
from optimization_rush.bisect import Measured, Ratio, changed, joined, search  # noqa: E402
from optimization_rush.environments import Environment, mixture  # noqa: E402

NAMES = [f"package-{number:02}" for number in range(16)]
GROUPS = [frozenset([name]) for name in NAMES]


class Simulated:
    """Speeds that follow from factors of the new packages, with intervals of 0.5 %."""

    def __init__(self, fails=lambda moved: False, **factors):
        self.factors = {name.replace("_", "-"): math.log(factor) for name, factor in factors.items()}
        self.fails, self.measurements = fails, 0

    def log_speed(self, moved):
        return sum(self.factors.get(name, 0) for name in moved)

    def __call__(self, lower, upper, mixed):
        self.measurements += 1

        def ratio(moved):
            value = math.exp(self.log_speed(moved) - self.log_speed(lower))
            return Ratio(value, value * 0.995, value * 1.005)

        assert lower < upper and (mixed is None or lower < mixed < upper), (lower, upper, mixed)
        if mixed is not None and self.fails(mixed):
            return Measured(ratio(upper), None, "it crashed")
        return Measured(ratio(upper), ratio(mixed) if mixed is not None else None)


def found_by(simulated, conflicts=lambda moved: set()):
    return search(GROUPS, simulated, conflicts, lambda text: None)


def each_package_is_found():
    for name in NAMES:
        for factor in (0.9, 1.1):
            simulated = Simulated(**{name.replace("-", "_"): factor})
            found = found_by(simulated)
            assert found.suspects == [name] and abs(found.share - 1) < 1e-9, found
            assert simulated.measurements == 6, "all, four halves, and once more"


def what_cannot_be_separated():
    assert found_by(Simulated(package_03=1.001)) is None, "no change is measured"
    # Two causes of one size: no half has the change alone if it separates them.
    found = found_by(Simulated(package_00=0.95, package_15=0.95))
    assert {"package-00", "package-15"} <= set(found.suspects) and "no half" in found.reason, found
    # A large and a small one: the large one is found, with its share.
    found = found_by(Simulated(package_00=0.90, package_15=0.98))
    assert found.suspects == ["package-00"] and 0.8 < found.share < 0.9, found
    # Packages that require each other's version move together.
    pair = {"package-07", "package-08"}
    parted = lambda moved: {tuple(sorted(pair))} if len(pair & moved) == 1 else set()
    found = found_by(Simulated(package_08=0.9), parted)
    assert set(found.suspects) == pair and found.reason == "", found
    assert joined(GROUPS[:3], [("package-00", "package-02")]) == [frozenset(["package-00", "package-02"]), GROUPS[1]]
    # Without package 3 the others fail: other halves are tried.
    found = found_by(Simulated(lambda moved: 0 < len(moved) < 16 and "package-03" not in moved, package_12=0.9))
    assert "package-12" in found.suspects and ("fails" in found.reason or len(found.suspects) == 1), found


TRAIN = """
import importlib, json, os, random
seconds = 0.01 * (1 + sum(importlib.import_module(f"package_{i:02}").COST for i in range(16)))
noise = random.Random(os.getpid())
with open(os.environ["OPTRUSH_METRICS"], "a") as metrics:
    for step in range(12):
        print(json.dumps({"event": "step", "step": step, "timed": step >= 2, "tokens": 16, "loss": 2 - 0.1 * step,
                          "seconds": seconds * (1 + 0.005 * noise.uniform(-1, 1))}), file=metrics, flush=True)
"""


def environment(folder, versions, slow):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    for name, version in versions.items():
        module = name.replace("-", "_")
        (site / f"{module}.py").write_text(f"COST = {0.08 if name == slow and version == '2.0' else 0}\n")
        info = site / f"{module}-{version}.dist-info"
        info.mkdir()
        # Package 4 requires package 5 of its version.
        needs = f"Requires-Dist: package-05 == {version}\n" if name == "package-04" else ""
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        (info / "RECORD").write_text(f"{module}.py,,\n{info.name}/METADATA,,\n{info.name}/RECORD,,\n")


def setuptools_is_no_suspect(work):
    """It is in each environment that venv makes, in the version of its Python, and programs may import it."""
    environment(work / "with", {"setuptools": "66.0", "package-01": "1.0"}, "")
    environment(work / "without", {"package-01": "2.0"}, "")
    old, new = Environment(work / "with"), Environment(work / "without")
    assert changed(old, new) == [frozenset(["package-01"])]
    mixed = mixture(work / "mixed", old, new, frozenset(["package-01"]))
    assert (mixed.version("setuptools"), mixed.version("package-01")) == ("66.0", "2.0")
    assert mixture(work / "mixed", new, old, frozenset()).version("setuptools") == "66.0"


def lock_of(environment, lock):
    """A lock file as `pip freeze` writes it, for an index of wheels in a folder."""
    (site,) = environment.glob("lib/python3*/site-packages")
    wheels = lock.parent / "wheels"
    wheels.mkdir()
    lines = ["--no-index", f"--find-links {wheels}"]
    for info in sorted(site.glob("*.dist-info")):
        module, version = info.name.removesuffix(".dist-info").split("-")
        with zipfile.ZipFile(wheels / f"{module}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.write(site / f"{module}.py", f"{module}.py")
            wheel.writestr(f"{info.name}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            for file in ("METADATA", "RECORD"):
                wheel.write(info / file, f"{info.name}/{file}")
        lines.append(f"{module.replace('_', '-')}=={version}")
    lock.write_text("\n".join(lines) + "\n")


def a_planted_slowdown(work, slow, expected):
    """From a virtual environment to a lock file."""
    environment(work / "old", dict.fromkeys(NAMES, "1.0"), slow)
    environment(work / "new", {**dict.fromkeys(NAMES, "2.0"), "package-15": "1.0"}, slow)
    lock_of(work / "new", work / "new.txt")
    (work / "train.py").write_text(TRAIN)
    command = [BUILD / "bin/optrush", "bisect", "--from", "old", "--to", "new.txt", "--seq-len", "16", "--steps", "10",
               "--warmup", "2", "--within", "0.04", "--at-most", "40s", "--", "train.py"]
    done = subprocess.run(command, cwd=work, text=True, capture_output=True,
                          env={**os.environ, "OPTRUSH_PYTHON": sys.executable})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("all 15 changed packages: 0.9"), done.stdout
    assert expected in done.stdout, done.stdout
    found = re.search(r"(0\.\d+)x \[(0\.\d+), (0\.\d+)\] of the speed without it", done.stdout)
    ratio, low, high = map(float, found.groups())
    assert low <= ratio <= high < 1 and abs(ratio - 1 / 1.08) < 0.01, done.stdout
    the_guide_shows_such_output(done.stdout)
    print(done.stdout)


def masked(text):
    """Lines without their numbers and lists of packages, and without the reason for several suspects."""
    package = r"package-\d+( [\d.]+ -> [\d.]+)?"
    text = re.sub(rf"{package}(, {package}| and \d+ more)*", "PACKAGES", text)
    text = re.sub(r"One or more of \d+ packages, because [^:]*: ", "", text)
    return set(re.sub(r"\d+(\.\d+)?", "N", text).splitlines())


def the_guide_shows_such_output(printed):
    guide = (SOURCE / "docs/guides/bisect.md").read_text()
    shown = masked(re.search(r"^```\n(all .*?)^```", guide, re.MULTILINE | re.DOTALL)[1]) - {"..."}
    assert shown <= masked(printed), (shown, printed)


def mistakes(work):
    def refused(*words):
        done = subprocess.run([BUILD / "bin/optrush", "bisect", *words], cwd=work, text=True, capture_output=True,
                              env={**os.environ, "OPTRUSH_PYTHON": sys.executable})
        assert done.returncode != 0, done.stdout
        return done.stderr

    assert "there is no 'none'" in refused("--from", "none", "--to", "new", "--", "train.py")
    assert "same packages" in refused("--from", "old", "--to", "old", "--", "train.py")
    assert "not a virtual environment" in refused("--from", ".", "--to", "old", "--", "train.py")
    (work / "broken.py").write_text("raise SystemExit('no such flag')\n")
    text = refused("--from", "old", "--to", "new", "--at-most", "20s", "--", "broken.py")
    assert "fails in the environment 'base'" in text, text


each_package_is_found()
what_cannot_be_separated()
with tempfile.TemporaryDirectory() as folder:
    # Package 5 is slow, and package 4 requires its version.
    a_planted_slowdown(pathlib.Path(folder), "package-05", "package-04 1.0 -> 2.0, package-05 1.0 -> 2.0: ")
    mistakes(pathlib.Path(folder))
    setuptools_is_no_suspect(pathlib.Path(folder))
