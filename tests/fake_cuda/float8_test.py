"""float8 on the stand-in: LibTorch accepts its products, and cuBLASLt gets the asked sums.

The forward multiplies e4m3 by e4m3, the backward e4m3 by e5m2."""
import tempfile
from pathlib import Path

from compiled_parts import results_of, traces_of
from on_stand_in import HERE, OPTRUSH, assert_no_faults, on_stand_in

FAST = {"none": set(), "forward": {"e4m3 e4m3"}, "all": {"e4m3 e4m3", "e4m3 e5m2"}}


def products_of(trace):
    """{("e4m3 e4m3", settings)} of the 8-bit products"""
    found = set()
    for line in trace.splitlines():
        if line.startswith("call cublasLtMatmul") and "e4m3" in line:
            shapes, settings = line.split(" epilogue ")
            types = sorted(word for word in shapes.split() if word in ("e4m3", "e5m2"))
            found.add((" ".join(types), settings.partition(" ")[2]))
    return found


def main(folder):
    ended = on_stand_in(folder / "counts", OPTRUSH, "run", HERE / "float8.lua", "--out", folder,
                        trace=folder / "trace.%p")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert_no_faults(folder / "counts")
    results = results_of(folder / "float8/local")
    assert all(result["status"] == "ok" for result in results.values()), results
    traces = {command.split("-r1/spec.json")[0].rsplit("/", 1)[1].split("-", 1)[1]: trace
              for command, trace in traces_of(folder) if "-r1/spec.json" in command}
    for name, fast in FAST.items():
        expected = {(types, "fast sums" if types in fast else "") for types in FAST["all"]}
        assert products_of(traces[name]) == expected, (name, products_of(traces[name]))


with tempfile.TemporaryDirectory() as scratch:
    main(Path(scratch))
