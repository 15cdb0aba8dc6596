"""`optrush check` from the command line: it names plugins that fail, each in its way, while the others pass.

It resumes, keeps to its time limit, and ends at a signal."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"])
OPTRUSH = BUILD / "bin" / "optrush"
# A sanitizer would end a crashing process in its own way.
ENVIRONMENT = dict(os.environ, ASAN_OPTIONS="handle_segv=0")


def command(work, *arguments):
    device = [] if "--device" in arguments else ["--device", "cpu"]
    return [str(OPTRUSH), "check", *device, "--folder", str(work / "state"), *arguments]


def check(work, *arguments, code=0):
    """The result file, and the printed text."""
    out = work / "result.json"
    out.unlink(missing_ok=True)
    done = subprocess.run([*command(work, *arguments), "--json", str(out)], capture_output=True, text=True,
                          env=ENVIRONMENT, check=False)
    printed = done.stdout + done.stderr
    assert done.returncode == code, f"exit code {done.returncode} instead of {code}:\n{printed}"
    return json.loads(out.read_text()) if out.exists() else None, printed


def cases_of(result, plugin):
    found = [case for case in result["cases"] if plugin in case["plugins"]]
    assert found, f"no case of {plugin}"
    return found


FAILURES = {  # plugin: (code of its failed cases, {kind of case: words of its detail})
    "alternates": ("wrong_result", {"resume": "the state after 3 steps trains differently"}),
    "crashes_in_backward": ("crashed", {"alone": "SIGSEGV", "gradient": "SIGSEGV"}),
    "forgets_its_momentum": ("wrong_result", {"resume": "trains differently: the loss of step 2"}),
    "hangs_in_slot": ("timeout", {"alone": "timeout: no end within", "gradient": "timeout"}),
    "hides_in_fewer_bits": ("wrong_result", {"gradient": "operator 'same' has a wrong backward"}),
    "not_exact": ("wrong_result", {"alone": "0.0e+00 allowed"}),
    "scales_on_ranks": ("wrong_result", {"alone": "on 2 ranks: the gradient norm of step 0"}),
    "throws_in_slot": ("invalid_plugin", {"alone": "plugin 'throws_in_slot' in slot 'linear'",
                                          "gradient": "throws in a linear"}),
    "wrong_backward": ("wrong_result", {"gradient": "operator 'qk_norm' has a wrong backward: input 0"}),
    "wrong_gradient_norm": ("wrong_result", {"alone": "the gradient norm of step 0",
                                             "gradient": "is wrong: in one direction"}),
}


GOOD = {  # plugin: words of the detail of one of its cases
    "adapts_in_step_end": "without the event step_end, in which a plugin adapts",
    "ddp": "on 2 ranks: differences from the reference",
    "keeps_fp32": "some are kept in Float",
}


def most_informative_cases_come_first(work):
    out = work / "list.json"
    subprocess.run([BUILD / "bin/optrush-worker", "check-list", "--device", "cpu", "--out", out], check=True)
    cases = json.loads(out.read_text())["cases"]
    assert len({case["id"] for case in cases}) == len({case["identity"] for case in cases}) == len(cases)

    listing = subprocess.run([OPTRUSH, "plugins", "--json"], capture_output=True, check=True).stdout
    listed = json.loads(listing)["plugins"]
    before_pairs = {plugin["name"] for plugin in listed if plugin["effect"] == "precision" or "cuda" in plugin["needs"]}
    assert {"cuda_graphs", "float8"} <= before_pairs

    def place(case):
        if case["kind"] != "compiled" or len(case["subjects"]) == 1:
            return ["alone", "gradient", "types", "resume", "compiled", None, "pair"].index(case["kind"])
        return 5 if before_pairs & set(case["subjects"]) else 7

    places = [place(case) for case in cases]
    assert places == sorted(places) and set(places) == set(range(8))
    pairs = {frozenset(case["subjects"]) for case in cases if len(case["subjects"]) > 1}
    plugins = {name for case in cases for name in case["subjects"]}
    assert plugins == {plugin["name"] for plugin in listed}
    # Every pair is a case, unless one plugin of the pair stacks the other itself.
    missing = {frozenset((a, b)) for a in plugins for b in plugins if a < b} - pairs
    for a, b in missing:
        alone = [case for case in cases if case["subjects"] in ([a], [b])]
        assert any({a, b} <= {use["name"] for use in case["spec"]["plugins"]} for case in alone), (a, b)

    # Mixtures of experts are cut with every plugin. Compiled cases leave them out, because compilers take too long.
    cut = [case for case in cases if "tensor_parallel" in case["subjects"] and case["kind"] != "compiled"]
    for kind in ("alone", "gradient", "types", "resume", "pair"):
        dense, mixtures = ({tuple(case["subjects"]) for case in cut
                            if case["kind"] == kind and case["spec"]["model"].get("n_experts") == experts}
                           for experts in (None, 3))
        assert dense <= mixtures, (kind, dense - mixtures)


def failures_are_named(work):
    # Each case of a plugin that hangs takes the whole limit. The others must not reach theirs on a busy machine.
    hangs = [plugin for plugin, (code, _) in FAILURES.items() if code == "timeout"]
    others = [plugin for plugin in FAILURES if plugin not in hangs]
    good = ["adapts_in_step_end", "ddp", "fused_adamw", "keeps_fp32", "lora"]
    for plugins, limit in ((hangs, "5"), (others + good, "60")):
        asked = [argument for plugin in plugins for argument in ("--plugin", plugin)]
        asked += ["--kind", "alone", "--kind", "gradient", "--kind", "resume"]
        result, printed = check(work, "--plugin-path", str(BUILD / "tests/checked"), *asked, "--limit", limit, code=1)
        for plugin in plugins:
            code, expected = FAILURES.get(plugin, (None, {}))
            cases = cases_of(result, plugin)
            for kind, words in expected.items():
                failed = [case for case in cases if case["kind"] == kind and case["status"] == "failed"]
                named = any(words in case["detail"] and case["code"] == code for case in failed)
                assert named, f"{plugin} by {kind}: {failed}\n{printed}"
            if plugin in good:
                bad = [case for case in cases if case["status"] not in ("ok", "refused")]
                assert not bad, bad
                details = " ".join(case["detail"] for case in cases)
                assert GOOD.get(plugin, "") in details, details
            else:
                assert plugin in printed and "FAILED" in printed
        left = [case for case in result["cases"] if case["status"] == "not run"]
        assert not left, f"the check did not continue after a failure: {left}"


def refusal_is_not_a_failure(work):
    result, _ = check(work, "--plugin-path", str(BUILD / "tests/refused"), "--plugin", "owns_swiglu", "--kind", "pair")
    both = next(case for case in result["cases"] if set(case["plugins"]) == {"owns_swiglu", "fused_kernels"})
    assert both["status"] == "refused" and both["code"] == "conflict", both
    assert "owns_swiglu" in both["detail"] and "fused_kernels" in both["detail"], both


def options_of_a_plugin(work):
    result, _ = check(work, "--plugin", "lora:rank=2,alpha=4", "--kind", "alone")
    assert all("rank=2" in case["id"] and case["status"] in ("ok", "refused") for case in result["cases"]), result


def documents_for_a_plugin_that_needs_them(work):
    result, printed = check(work, "--plugin", "packing", "--kind", "alone", "--kind", "pair")
    by_kind = {kind: [case["status"] for case in result["cases"] if case["kind"] == kind] for kind in ("alone", "pair")}
    assert set(by_kind["alone"]) == {"ok"}, printed
    assert by_kind["pair"].count("ok") >= 10, printed
    assert not [case for case in result["cases"] if ("code" in case) == (case["status"] == "ok")], result
    skipped = [case for case in result["cases"] if case["status"] == "skipped" and "documents" in case["detail"]]
    assert {case["code"] for case in skipped} == {"conflict"}, skipped
    # dpo needs other data, in both of its forms.
    assert [case["plugins"] for case in skipped] == [["dpo", "packing"]] * 2, printed


def plugin_with_random_numbers_passes(work):
    """A dropout mask for each micro-batch, in the type of the activations, and an option without a default."""
    result, printed = check(work, "--plugin-path", str(BUILD / "tests/checked"), "--plugin", "drops_in_its_type",
                            "--kind", "alone", "--kind", "gradient", "--kind", "resume")
    assert {case["status"] for case in result["cases"]} <= {"ok", "refused"}, printed
    assert all("rate=0.1" in case["id"] for case in result["cases"]), printed
    # Only pairs with the shipped plugins: the other plugins of its folder are wrong on purpose.
    alone = work / "draws"
    alone.mkdir()
    shutil.copy(BUILD / "tests/checked/drops_in_its_type.so", alone)
    result, printed = check(work, "--plugin-path", str(alone), "--plugin", "drops_in_its_type", "--kind", "pair")
    accumulates = [case for case in result["cases"] if "gradient_accumulation" in case["plugins"]]
    assert accumulates and all(case["status"] == "ok" and "accumulated as well" in case["detail"]
                               for case in accumulates), printed


def two_ranks_are_planned(work):
    result, printed = check(work, "--plugin", "packing", "--kind", "pair")
    by_plugin = {tuple(sorted(case["plugins"])): case for case in result["cases"]}
    ring = by_plugin["context_parallel", "packing"]
    assert ring["status"] == "refused" and ring["code"] == "unsupported" and "on 2 ranks" in ring["detail"], ring
    spread = by_plugin["ddp", "packing"]
    assert spread["status"] == "ok" and "trained on 1 rank, only planned on 2" in spread["detail"], spread
    assert "each trained on 1 rank" in printed


def an_unchecked_plugin_is_not_ok(work):
    result, printed = check(work, "--plugin", "tf32")
    assert result["counts"]["ok"] == 0, printed
    assert {case["code"] for case in result["cases"]} == {"missing_requirement"}, result
    row = next(line for line in printed.splitlines() if line.lstrip().startswith("tf32"))
    assert "not checked" in row, printed


def bad_options(work):
    for arguments, words in [(["--kind", "paris"], "did you mean 'pair'?"),
                             (["--for", "soon"], "\"soon\" is not a duration"),
                             (["--for", "0"], "\"0\" is not a duration"),
                             (["--limit", "-3s"], "is not a duration"),
                             (["--fro", "8m"], "did you mean '--for'?"),
                             (["--plugin", "lora:rank"], "is not key=value"),
                             (["--plugin", "lora:rnk=2"], "did you mean 'rank'?"),
                             (["--plugin", "lora:rank=0"], "an integer between 1 and 4096, but is 0")]:
        _, printed = check(work, *arguments, code=2)
        assert words in printed, f"{arguments}: {printed}"
    for arguments, words in [(["--plugin", "lroa"], "did you mean 'lora'?"),
                             (["--device", "cupu"], "unknown device 'cupu'")]:
        _, printed = check(work, *arguments, code=1)
        assert words in printed, f"{arguments}: {printed}"


def resumes_after_a_kill(work):
    arguments = ["--plugin", "lora", "--plugin", "fused_adamw", "--kind", "alone", "--kind", "gradient"]
    journal = work / "state/journal.jsonl"
    journal.unlink(missing_ok=True)
    with subprocess.Popen(command(work, *arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not journal.exists() or journal.read_text().count("\n") < 3:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
        process.kill()
    with journal.open("a") as file:
        file.write('{"end": "cut o')  # a kill in the middle of a line leaves such a rest
    result, printed = check(work, *arguments, "--resume")
    assert 3 <= result["resumed"] < len(result["cases"]), printed
    assert all(case["status"] in ("ok", "refused") for case in result["cases"]), printed
    again, _ = check(work, *arguments, "--resume")
    assert again["resumed"] == len(again["cases"])
    anew, _ = check(work, "--plugin", "fused_adamw", "--kind", "gradient")
    assert anew["resumed"] == 0


def stays_within_its_time_limit(work):
    result, printed = check(work, "--for", "4s")
    assert result["counts"]["not run"] > 0 and result["counts"]["failed"] == 0, printed
    assert "not run" in printed


def stops_on_a_signal(work):
    journal = work / "state/journal.jsonl"
    journal.unlink(missing_ok=True)
    with subprocess.Popen(command(work), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not journal.exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "not run" in out and "--resume" in errors, out + errors


def main():
    for case in (bad_options, plugin_with_random_numbers_passes, two_ranks_are_planned, an_unchecked_plugin_is_not_ok,
                 most_informative_cases_come_first, options_of_a_plugin, documents_for_a_plugin_that_needs_them,
                 failures_are_named, refusal_is_not_a_failure, resumes_after_a_kill, stays_within_its_time_limit,
                 stops_on_a_signal):
        if sys.argv[1:] and case.__name__ not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            case(pathlib.Path(folder))
        print("ok", case.__name__, flush=True)


main()
