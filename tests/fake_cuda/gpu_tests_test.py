"""The GPU tests of kernels on the stand-in: only comparisons of computed values fail, because nothing is computed.

Each kernel is compiled, found and launched with its arguments, and data that is only copied arrives."""
import json
import sys
import tempfile
from pathlib import Path

from on_stand_in import BUILD, HERE, counted, on_stand_in

sys.path.append(str(HERE.parents[1] / "tools/gpu"))
sys.path.append(str(HERE.parents[1] / "bench"))
from quarter.stages import PROGRAMS, RANKS  # noqa: E402

ARRIVES = {"UploadToGpu.EveryByteArrives", "UploadToGpu.TheHostTensorMayBeFreedAtOnce",  # copied, not computed
           "PoisonOnGpu.FreedBlockIsFilledAfterEarlierWorkOfItsStream",
           "PoisonOnGpu.BlockOfAnotherStreamIsFilledWhenThatStreamIsDone"}
WAITS = "CudaGraphsOnGpu.StepThatWaitsForTheHostFailsInsteadOfHanging"  # this test plants a fault


def failures_of(program, folder):
    """{test: its failure messages}"""
    results, counts = folder / f"{program}.json", folder / f"{program}.jsonl"
    ended = on_stand_in(counts, BUILD / "tests/bin" / program, f"--gtest_output=json:{results}",
                        environment={"FAKE_CUDA_STRICT": "0"})
    assert results.exists(), f"{program} ended with {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    found = {f"{suite['name']}.{test['name']}": [each["failure"] for each in test.get("failures", [])]
             for suite in json.loads(results.read_text())["testsuites"] for test in suite["testsuite"]}
    faults = [line["faults"] for line in counted(counts) if line["faults"]]
    assert not faults or WAITS in found, f"{program}: {faults}"
    return found


with tempfile.TemporaryDirectory() as scratch:
    all_tests = {}
    for each in PROGRAMS:
        if each in RANKS or each == "test_nccl_gpu":
            continue  # programs of ranks: ranks_test.py
        all_tests |= failures_of(each, Path(scratch))
assert all_tests.keys() >= ARRIVES, all_tests.keys()
thrown = {name: said for name, failures in all_tests.items() for said in failures if "C++ exception" in said}
assert not thrown, json.dumps(thrown, indent=1)
assert not any(all_tests[name] for name in ARRIVES), {name: all_tests[name] for name in ARRIVES}
