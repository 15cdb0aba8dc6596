"""The host side of every plugin, alone and in every pair, on the stand-in: each case ends, and no call is invalid.

The stand-in computes nothing, so nothing is compared. `check` says so, and runs without comparisons only there.
"""
import json
import subprocess
import tempfile
from pathlib import Path

from on_stand_in import BUILD, OPTRUSH, assert_no_faults, on_stand_in

KINDS = ["alone", "gradient", "types", "resume", "pair"]  # without a compiler
OF_EXPERTS_ONLY = {"expert_parallel", "grouped_experts", "router_losses"}  # the host reads their routes
ON_CPUS_ONLY = {"cpu_allocator", "onednn_matmul", "upcast_matmul"}


def check(folder, *options, code=0):
    out = folder / "result.json"
    # The first case of a plugin compiles its kernels, which takes minutes on a busy machine.
    check_on_gpu = [OPTRUSH, "check", "--device", "cuda", "--limit", "10m", "--folder", folder, "--json", out, *options]
    done = on_stand_in(folder / "counts.jsonl", *check_on_gpu)
    assert done.returncode == code, f"exit code {done.returncode} instead of {code}\n{done.stdout}\n{done.stderr}"
    return json.loads(out.read_text())["cases"] if out.exists() else [], done.stdout + done.stderr


def case_without_comparison_is_not_passed(folder):
    _, said = check(folder, "--plugin", "tf32", code=2)
    assert "stand-in for a GPU: it computes nothing" in said and "--without-values" in said, said
    wrong = subprocess.run([OPTRUSH, "check", "--device", "cpu", "--without-values", "--plugin", "lora"],
                           capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "--without-values compares nothing" in wrong.stderr, wrong.stderr


def broken_plugin_fails_but_a_wrong_value_is_not_detected(folder):
    asked = [word for plugin in ("throws_in_slot", "not_exact") for word in ("--plugin", plugin)]
    options = ["--without-values", "--plugin-path", BUILD / "tests/checked", "--kind", "alone", *asked]
    cases, said = check(folder, *options, code=1)
    by_plugin = {plugin: [case for case in cases if plugin in case["plugins"]]
                 for plugin in ("throws_in_slot", "not_exact")}
    assert any(case["status"] == "failed" for case in by_plugin["throws_in_slot"]), by_plugin
    experts = [case for case in by_plugin["not_exact"] if "mixture of experts" in case["id"]]
    assert [case["status"] for case in experts] == ["skipped"], experts
    assert "tokens each expert has" in experts[0]["detail"], experts
    assert all(case["status"] == "ok" and "nothing was compared" in case["detail"] for case in by_plugin["not_exact"]
               if case not in experts), by_plugin
    assert said.startswith("The device is a stand-in") and "not checked" in said and "FAKE" in said, said


def every_case_runs(folder):
    kinds = [word for kind in KINDS for word in ("--kind", kind)]
    cases, _ = check(folder, "--without-values", *kinds)
    assert_no_faults(folder / "counts.jsonl")
    listing = subprocess.run([OPTRUSH, "plugins", "--json"], capture_output=True, check=True).stdout
    listed = json.loads(listing)["plugins"]
    with_a_compiler = {plugin["name"] for plugin in listed if "compiler" in plugin["needs"]}
    for kind in KINDS:
        of_kind = [case for case in cases if case["kind"] == kind]
        ran = {plugin for case in of_kind if case["status"] == "ok" for plugin in case["plugins"]}
        if kind in ("alone", "pair"):
            expected = {plugin["name"] for plugin in listed} - with_a_compiler - ON_CPUS_ONLY - OF_EXPERTS_ONLY
            assert ran == expected, (kind, ran ^ expected)
        passed = [case for case in of_kind if case["status"] == "ok"]
        assert len(passed) > len(of_kind) / 2 or kind == "types", (kind, of_kind)


for each in (case_without_comparison_is_not_passed, broken_plugin_fails_but_a_wrong_value_is_not_detected,
             every_case_runs):
    with tempfile.TemporaryDirectory() as scratch:
        each(Path(scratch))
