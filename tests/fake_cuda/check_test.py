"""Every plugin, alone and in every pair, through its host side on the stand-in: each case runs to its end, and no call is one that a
GPU would refuse. Nothing is compared, as nothing is computed; so `check` says that, and runs without comparisons there alone."""
import json
import subprocess
import tempfile
from pathlib import Path

from on_stand_in import BUILD, OPTRUSH, assert_no_faults, on_stand_in

KINDS = ["alone", "gradient", "types", "resume", "pair"]  # without a compiler
OF_EXPERTS_ONLY = {"expert_parallel", "grouped_experts", "router_losses"}  # whose routes the host reads
ON_CPUS_ONLY = {"cpu_allocator", "onednn_matmul"}


def check(folder, *options, code=0):
    out = folder / "result.json"
    done = on_stand_in(folder / "counts.jsonl", OPTRUSH, "check", "--device", "cuda", "--folder", folder, "--json", out, *options)
    assert done.returncode == code, f"exit code {done.returncode} instead of {code}\n{done.stdout}\n{done.stderr}"
    return json.loads(out.read_text())["cases"] if out.exists() else [], done.stdout + done.stderr


def what_is_not_compared_is_no_check(folder):
    _, said = check(folder, "--plugin", "tf32", code=2)
    assert "stand-in for a GPU: it computes nothing" in said and "--without-values" in said, said
    wrong = subprocess.run([OPTRUSH, "check", "--device", "cpu", "--without-values", "--plugin", "lora"], capture_output=True,
                           text=True, check=False)
    assert wrong.returncode == 2 and "--without-values compares nothing" in wrong.stderr, wrong.stderr


def what_breaks_fails_and_what_is_wrong_is_not_seen(folder):
    asked = [word for plugin in ("throws_in_slot", "not_exact") for word in ("--plugin", plugin)]
    cases, said = check(folder, "--without-values", "--plugin-path", BUILD / "tests/checked", "--kind", "alone", *asked, code=1)
    by_plugin = {plugin: [case for case in cases if plugin in case["plugins"]] for plugin in ("throws_in_slot", "not_exact")}
    assert any(case["status"] == "failed" for case in by_plugin["throws_in_slot"]), by_plugin
    experts = [case for case in by_plugin["not_exact"] if "mixture of experts" in case["id"]]
    assert [case["status"] for case in experts] == ["skipped"] and "tokens each expert has" in experts[0]["detail"], experts
    assert all(case["status"] == "ok" and "nothing was compared" in case["detail"] for case in by_plugin["not_exact"]
               if case not in experts), by_plugin
    assert said.startswith("The device is a stand-in") and "not checked" in said and "FAKE" in said, said


def every_case_runs(folder):
    kinds = [word for kind in KINDS for word in ("--kind", kind)]
    cases, _ = check(folder, "--without-values", *kinds)
    assert_no_faults(folder / "counts.jsonl")
    listed = json.loads(subprocess.run([OPTRUSH, "plugins", "--json"], capture_output=True, check=True).stdout)["plugins"]
    with_a_compiler = {plugin["name"] for plugin in listed if "compiler" in plugin["needs"]}
    for kind in KINDS:
        of_kind = [case for case in cases if case["kind"] == kind]
        ran = {plugin for case in of_kind if case["status"] == "ok" for plugin in case["plugins"]}
        if kind in ("alone", "pair"):
            expected = {plugin["name"] for plugin in listed} - with_a_compiler - ON_CPUS_ONLY - OF_EXPERTS_ONLY
            assert ran == expected, (kind, ran ^ expected)
        assert len([case for case in of_kind if case["status"] == "ok"]) > len(of_kind) / 2 or kind == "types", (kind, of_kind)


for each in (what_is_not_compared_is_no_check, what_breaks_fails_and_what_is_wrong_is_not_seen, every_case_runs):
    with tempfile.TemporaryDirectory() as scratch:
        each(Path(scratch))
