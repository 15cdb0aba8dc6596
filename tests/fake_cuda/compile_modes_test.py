"""compile_modes_test.py [--all]: the plugin `compile` in each mode, with and without CUDA graphs, with and without
`auto`, for whole blocks and for their parts.

On the stand-in the machine code of each unit is compiled, loaded and launched. Modes that differ only by CUDA graphs
share the code. `max-autotune` launches the candidate kernels; their times mean nothing here. A mode that needs CUDA
graphs is refused without them.

--all runs every rung of compile_modes.lua for both architectures."""
import os
import sys
import tempfile
from pathlib import Path

import compiled_parts
from compiled_parts import kernels_fit, launched_in, results_of, traces_by_rung, traces_of
from on_stand_in import on_stand_in

ALL = {"sm_80": [], "sm_90": []}  # an empty list selects every rung
SELECTED = {
    "sm_80": ["default", "default, graphs", "reduce-overhead, auto, graphs", "reduce-overhead alone"],
    "sm_90": ["max-autotune-no-cudagraphs", "max-autotune-no-cudagraphs, auto, graphs", "max-autotune, graphs"],
}
REFUSED = "reduce-overhead alone"
UNITS = {"default": 2, "max-autotune": 1}  # the block and the head; the MLP of a block
WITHOUT_POOL = {  # quicker for small units
    "AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL": "O0", "TORCHINDUCTOR_COMPILE_THREADS": "1",
}


def inside(scratch, arch, rungs):
    """Both architectures share precompiled headers; each has its own cache of compiled code."""
    out = scratch / arch
    out.mkdir()
    os.environ |= {"FAKE_CUDA_ARCH": arch, "FAKE_CUDA_TRACE": str(out / "trace.%p"),
                   "OPTRUSH_CACHE": str(out / "cache")}
    compiled_parts.inside(out, "compile_modes.lua", False, [word for rung in rungs for word in ("--only", rung)])


def kernels_of_last_step(trace):
    """Compiled kernels in the last step, if that step is recorded."""
    return launched_in(trace.rsplit("\nreplay\n", 1)[1]) if "\nreplay\n" in trace else set()


def each_mode_ran(out, rungs):
    results = results_of(out / "compile_modes/local", but=REFUSED)
    assert not rungs or results.keys() == {"base", *rungs}, results.keys()
    traces = traces_by_rung(out)
    for name, result in results.items():
        if name == REFUSED:
            assert result["status"] == "failed", result
            assert "needs CUDA graphs, but no stacked plugin records" in result["reason"], result
        elif name != "base":
            notes, trace = "\n".join(result["notes"]), traces[name.replace(", ", "-")]
            recorded, chosen = "graphs" in name.split(", "), "auto" in name.split(", ")
            assert launched_in(trace), f"{name}: no kernel was launched"
            assert ("each step is launched as one CUDA graph" in notes) == recorded, (name, notes)
            assert ("compiled, a forward and backward takes" in notes) == chosen, (name, notes)
            if not chosen:  # `auto` may have chosen the eager form
                assert bool(kernels_of_last_step(trace)) == recorded, (name, trace[-2000:])


def kernels_were_timed(out, mode):
    """The compiling process launches kernels only to time them."""
    trace = "".join(trace for command, trace in traces_of(out) if "inductor.py" in command)
    assert ("\nlaunch triton_mm" in trace) == (mode == "max-autotune"), trace[:2000]


def compiled(rungs_of):
    words = [word for arch, rungs in rungs_of.items() for word in (arch, ":".join(rungs))]
    with tempfile.TemporaryDirectory() as scratch:
        done = on_stand_in(Path(scratch) / "counts", sys.executable, __file__, "--inside", scratch, *words,
                           environment=WITHOUT_POOL)
        print(done.stdout, done.stderr, flush=True)
        assert done.returncode == 0
        compiled_parts.assert_no_faults(Path(scratch) / "counts")
        for arch, rungs in rungs_of.items():
            each_mode_ran(Path(scratch) / arch, rungs)
            units = kernels_fit(arch, Path(scratch) / arch)
            modes = {mode for mode in UNITS if not rungs or rungs[0].startswith(mode)}
            shared = "modes that differ by CUDA graphs share their code"
            assert units == sum(UNITS[mode] for mode in modes), f"{units} units: {shared}"
            kernels_were_timed(Path(scratch) / arch, max(modes))


def main(words):
    if words[:1] == ["--inside"]:
        pairs = zip(words[2::2], words[3::2])
        for arch, rungs in pairs:  # one rung is refused, so the exit code of a run is ignored
            inside(Path(words[1]), arch, list(filter(None, rungs.split(":"))))
        return
    # A kernel timed for one architecture is not timed again for another.
    for rungs in [{arch: rungs} for arch, rungs in ALL.items()] if words == ["--all"] else [SELECTED]:
        compiled(rungs)


if __name__ == "__main__":
    main(sys.argv[1:])
