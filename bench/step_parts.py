#!/usr/bin/env python3
"""Where does a step's time go on a CPU, and how near is each part to the machine's limit? Ours beside PyTorch's.

    bench/step_parts.py [--size quickstart] [--rounds 5] [--ours fused_adamw flash_attention fused_kernels]

Both programs train the same model from the same values, then one more step under LibTorch's profiler. Its operators are
sorted into parts by the time that they take themselves, without what they call:

    products        by shape and form (n: as in memory, t: transposed), with their share of the measured peak
    attention       the fused kernels, or softmax where there is none
    elementwise     what reads and writes memory, with its share of the measured bandwidth
    loss            all but the products with the vocabulary
    optimizer       with its share of the bandwidth
    views           operators that compute nothing: views, memory that is asked for
    between         what no operator of LibTorch covers: autograd, the program itself

Rounds are interleaved, and a part has the median of its rounds. Waiting of threads is measured without the profiler:
with threads that sleep while they wait (OMP_WAIT_POLICY=passive), the CPU seconds of twelve more steps are less than
threads times their wall time.
"""
import argparse
import collections
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TWIN = ROOT / "experiments/peers/transformers_twin.py"
KEEP_MEMORY = {"MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1"}  # as in experiments/peers/pytorch.lua
TOP = ["fused_adamw", "flash_attention", "cpu_allocator", "fused_kernels", "fused_projections",
       "fused_linear_cross_entropy"]

SMALL = {"dim": 512, "n_layers": 8, "n_heads": 8, "n_kv_heads": 4, "ffn_dim": 1376, "vocab_size": 256}
SIZES = {
    # As many layers as quickstart, but small ones: the program's own cost is a large share of the step.
    "thin": ({**SMALL, "dim": 32, "n_layers": 4, "n_heads": 4, "n_kv_heads": 2, "ffn_dim": 64},
             {"micro_batch": 1, "seq_len": 16}),
    "quickstart": ({**SMALL, "dim": 256, "n_layers": 4, "ffn_dim": 688}, {"micro_batch": 4, "seq_len": 512}),
    "versus_pytorch": (SMALL, {"micro_batch": 4, "seq_len": 512}),
    "wide": (
        {**SMALL, "dim": 2048, "n_layers": 2, "n_heads": 32, "n_kv_heads": 8, "ffn_dim": 8192, "vocab_size": 32000},
        {"micro_batch": 2, "seq_len": 512},
    ),
}

PRODUCTS = {"aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::addmm": (1, 2), "aten::addmm_": (1, 2),
            "aten::baddbmm": (1, 2)}
LOSS = ("log_softmax", "nll_loss", "cross_entropy")
ATTENTION = ("scaled_dot_product", "_softmax", "aten::softmax", "logsumexp")
KERNEL = "optrush::kernel::"  # before the name of a plugin's kernel
OWN_ATTENTION = ("attention", "attention_backward")
VIEWS = ("empty", "view", "as_strided", "transpose", "aten::t", "reshape", "slice", "select", "narrow", "expand",
         "unsqueeze", "squeeze", "detach", "alias", "resolve_conj", "resize", "flatten", "unflatten", "result_type",
         "promote_types", "aten::to", "aten::contiguous", "aten::linear", "aten::matmul", "item", "_local_scalar")
BYTES = {"float": 4, "double": 8, "long int": 8, "c10::BFloat16": 2, "c10::Half": 2, "bool": 1, "int": 4,
         "unsigned char": 1}


class Part:
    def __init__(self):
        self.seconds, self.calls, self.flops, self.bytes = 0.0, 0, 0.0, 0.0


def elements(dims):
    count = 1
    for size in dims:
        count *= size
    return count


def tensors(event):
    """The number of elements and the bytes of an element, for each tensor argument."""
    arguments = event.get("args", {})
    for dims, kind in zip(arguments.get("Input Dims", []), arguments.get("Input type", [])):
        if kind in BYTES and dims:
            yield elements(dims), BYTES[kind]
        elif kind == "TensorList":
            for each in dims:
                yield elements(each), 4


def moved(event):
    """Bytes that an operator moves: each tensor argument is read once, and a result of the size of the largest one is
    written."""
    given = list(tensors(event))
    if event["name"].startswith(KERNEL):  # the event contains the bytes
        return float(event["args"]["Concrete Inputs"][0])
    if not given:
        return 0.0
    if event["name"] == "aten::_fused_adamw_":  # parameters and two moments are also written
        return 7 / 4 * sum(count * size for count, size in given)
    reduces = event["name"] in ("aten::sum", "aten::mean", "aten::linalg_vector_norm", "aten::_foreach_norm")
    fills = event["name"] in ("aten::fill_", "aten::zero_")
    written = 0 if reduces else max(count * size for count, size in given)
    overwritten = event["name"] in ("aten::copy_", "aten::cat", "aten::stack")
    read = 0 if fills else sum(count * size for count, size in given)
    return read + (0 if overwritten else written)


def form(dims, strides):
    return "t" if len(strides) > 1 and strides[-1] != 1 and strides[-2] == 1 else "n"


def product_of(event):
    """The name of a product and its FLOPs."""
    first, second = PRODUCTS[event["name"]]
    dims, strides = event["args"]["Input Dims"], event["args"]["Input Strides"]
    a, b = dims[first], dims[second]
    shape = f"{a[-2]} x {b[-1]} x {a[-1]}, {form(a, strides[first])}{form(b, strides[second])}"
    batch = f"{a[0]} of " if len(a) == 3 else ""
    adds = ", added" if first == 1 else ""
    return f"{batch}{shape}{adds}", 2.0 * elements(a) * b[-1]


class Reader:
    """Reads the parts of one trace."""

    def __init__(self, path, vocabulary):
        self.vocabulary, self.parts, self.of_vocabulary = vocabulary, collections.defaultdict(Part), False
        events = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") == "X"]
        self.phases = [event for event in events if event.get("cat") == "user_annotation" and
                       event["name"] in ("data", "forward", "backward", "optimizer")]
        self.seconds = sum(phase["dur"] for phase in self.phases) / 1e6
        for phase in self.phases:
            end = phase["ts"] + phase["dur"]
            inside = [event for event in events if event.get("cat") == "cpu_op" and phase["ts"] <= event["ts"] < end]
            self.phase(phase, sorted(inside, key=lambda event: (event["ts"], -event["dur"])))

    def phase(self, phase, events):
        open_calls, covered = [], 0.0
        for event in events:
            while open_calls and event["ts"] >= open_calls[-1]["ts"] + open_calls[-1]["dur"]:
                self.close(phase["name"], open_calls.pop())
            if open_calls:
                open_calls[-1]["inner"] += event["dur"]
            else:
                covered += event["dur"]
            open_calls.append({**event, "inner": 0.0})
        while open_calls:
            self.close(phase["name"], open_calls.pop())
        self.add("between operators", phase["dur"] - covered)

    def add(self, name, microseconds, flops=0.0, moved_bytes=0.0, calls=1):
        part = self.parts[name]
        part.seconds += microseconds / 1e6
        part.calls += calls
        part.flops += flops
        part.bytes += moved_bytes

    def close(self, phase, event):
        name, own = event["name"], event["dur"] - event["inner"]
        kernel = name.startswith(KERNEL)  # of a plugin
        if kernel and name.removeprefix(KERNEL) in OWN_ATTENTION:
            self.add("attention", own)
        elif name in PRODUCTS:
            shape, flops = product_of(event)
            self.of_vocabulary = any(self.vocabulary in dims for dims in event["args"]["Input Dims"][:3] if dims)
            self.add("product " + shape, own, flops)
        elif phase == "optimizer":
            self.add("optimizer", own, moved_bytes=moved(event) if own > event["inner"] else 0)
        elif any(word in name for word in LOSS) or (kernel and self.of_vocabulary and phase == "forward"):
            self.add("loss", own, moved_bytes=moved(event) if event["inner"] == 0 else 0)
        elif any(word in name for word in ATTENTION):
            self.add("attention", own)
        elif (
            "autograd" in name or "Backward" in name or not name.startswith(("aten::", "optrush::", "triton", "graph"))
        ):
            self.add("between operators", own, calls=0)
        elif any(word in name for word in VIEWS) and not name.startswith("aten::embedding"):
            self.add("views and memory", own)
        else:
            self.add("elementwise, fused" if kernel else "elementwise, " + name[6:], own, moved_bytes=moved(event))


class Program:
    def __init__(self, name, command, result, trace, environment):
        self.name, self.command, self.result, self.trace, self.environment = name, command, result, trace, environment
        self.rounds, self.steps, self.waiting = [], [], None

    def run(self, extra=None, **environment):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([str(word) for word in (extra or self.command)], capture_output=True, text=True,
                              env={**os.environ, **self.environment, **environment})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0 or not self.result.exists():
            raise SystemExit(f"{self.name} failed:\n{(done.stdout + done.stderr)[-3000:]}")
        result = json.loads(self.result.read_text())
        if result["status"] != "ok":
            raise SystemExit(f"{self.name}: {result['status']}: {result['reason']}")
        return result, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def round(self, vocabulary):
        result, _ = self.run()
        self.steps.append(result["step_seconds"])
        self.rounds.append(Reader(self.trace, vocabulary))


def measure_waiting(program, short, long, threads):
    """The number of threads that waited, on average over a step."""
    (few, few_cpu), (many, many_cpu) = (program.run(command, OMP_WAIT_POLICY="passive") for command in (short, long))
    wall = sum(step["seconds"] for step in many["steps"]) - sum(step["seconds"] for step in few["steps"])
    program.waiting = max(0.0, threads - (many_cpu - few_cpu) / wall)


def table(programs, context, threads):
    peak, bandwidth = context["peak"]["dtype_flops"]["fp32"], context["bandwidth_bytes_per_second"]
    lines = [f"{context['cpu']['name']}, {threads} threads. Measured: {peak / 1e9:.0f} GFLOP/s of products in fp32, "
             f"{bandwidth / 1e9:.1f} GB/s.", ""]
    for program in programs:
        traced = statistics.median(reader.seconds for reader in program.rounds)
        step = statistics.median(program.steps)
        lines += [f"**{program.name}**: {step * 1e3:.1f} ms a step, {traced * 1e3:.1f} ms under the profiler.", "",
                  "| part | calls | ms | of the step | rate | of the limit |", "|---|---:|---:|---:|---:|---:|"]
        names = {name for reader in program.rounds for name in reader.parts}
        rows = []
        for name in names:
            seconds = statistics.median(reader.parts[name].seconds for reader in program.rounds)
            rows.append((name, seconds, program.rounds[-1].parts[name]))

        def line(name, seconds, calls, flops, moved_bytes):
            rate = share = ""
            if flops:
                rate, share = f"{flops / seconds / 1e9:.0f} GFLOP/s", f"{100 * flops / seconds / peak:.0f} %"
            elif moved_bytes > 1e6:
                rate, share = (
                    f"{moved_bytes / seconds / 1e9:.1f} GB/s",
                    f"{100 * moved_bytes / seconds / bandwidth:.0f} %",
                )
            return f"| {name} | {calls} | {seconds * 1e3:.1f} | {100 * seconds / traced:.1f} % | {rate} | {share} |"

        def total(start, title):
            some = [row for row in rows if row[0].startswith(start)]
            if some:
                lines.append(line(f"**{title}**", sum(row[1] for row in some), sum(row[2].calls for row in some),
                                  sum(row[2].flops for row in some), sum(row[2].bytes for row in some)))

        for start, title in (("product", "products"), ("attention", "attention"), ("elementwise", "elementwise"),
                             ("loss", "loss"), ("optimizer", "optimizer"), ("views", "views and memory"),
                             ("between", "between operators")):
            total(start, title)
            if start in ("product", "elementwise"):
                for name, seconds, part in sorted(rows, key=lambda row: -row[1]):
                    if name.startswith(start) and seconds > 0.003 * traced:
                        lines.append(line(name, seconds, part.calls, part.flops, part.bytes))
        if program.waiting is not None:
            lines.append(
                f"| threads waiting | | {program.waiting * step * 1e3:.1f} | | of {threads} x {step * 1e3:.1f} ms "
                f"| {100 * program.waiting / threads:.0f} % |"
            )
        lines.append("")
    return "\n".join(lines)


def with_steps(spec, steps):
    return {**spec, "trace": False, "train": {**spec["train"], "steps": steps}}


def jemalloc():
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"):
        if os.path.exists(f"{folder}/libjemalloc.so.2"):
            return {**KEEP_MEMORY, "LD_PRELOAD": f"{folder}/libjemalloc.so.2"}
    return {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="quickstart", choices=SIZES)
    parser.add_argument("--ours", nargs="*", default=TOP, help="plugins of our step")
    parser.add_argument("--dtype", default="fp32", choices=["fp32", "bf16"], help="bf16: autocast")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4, help="steps before the traced one, after two of warm-up")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--python", default=ROOT / ".venv/bin/python")
    parser.add_argument("--only-ours", action="store_true")
    parser.add_argument("--no-waiting", action="store_true", help="leaves out the waiting of threads: four runs less")
    arguments = parser.parse_args()
    torch_dir = subprocess.run([arguments.python, "-c", "import torch; print(torch.__path__[0])"], check=True,
                               capture_output=True, text=True).stdout.strip()
    model, train = SIZES[arguments.size]
    plugins = (["mixed_precision"] if arguments.dtype == "bf16" else []) + arguments.ours
    more = 12
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        worker = arguments.build / "bin/optrush-worker"

        def write(file, spec):
            (folder / file).write_text(json.dumps(spec))
            return folder / file

        start = write("plain.json", {
            "model": model, "train": {**train, "steps": arguments.steps + more, "warmup": 2},
            "data": {"kind": "text", "path": os.path.join(torch_dir, "include"), "extensions": [".h"]},
            "device": "cpu", "threads": arguments.threads})
        subprocess.run([worker, "export", "--spec", start, "--out", folder / "start"], check=True)
        subprocess.run([worker, "doctor", "--quick", "--device", "cpu", "--threads", str(arguments.threads), "--json",
                        folder / "context.json"], check=True, stdout=subprocess.DEVNULL)
        context = json.loads((folder / "context.json").read_text())
        complete = json.loads((folder / "start/spec.json").read_text())
        ours = {**complete, "plugins": [{"name": plugin, "options": {}} for plugin in plugins]}
        specs = {
            "traced": write("traced.json", {**with_steps(ours, arguments.steps), "trace": True}),
            "short": write("short.json", with_steps(ours, arguments.steps)),
            "long": write("long.json", with_steps(ours, arguments.steps + more))}
        out = folder / "ours"
        host = {name: [worker, "run", "--spec", spec, "--out", out] for name, spec in specs.items()}
        programs = [
            Program("optrush: " + ", ".join(plugins), host["traced"], out / "result.json", out / "trace.json", {})
        ]
        commands = [host]
        if not arguments.only_ours:
            result, trace = folder / "twin.json", folder / "twin_trace.json"
            techniques = ["sdpa", "fused"] + (["bf16"] if arguments.dtype == "bf16" else [])
            twin = {
                name: [
                    arguments.python,
                    TWIN,
                    "--start",
                    folder / "start",
                    "--spec",
                    spec,
                    "--out",
                    result,
                    "--with",
                    *techniques,
                    *(["--trace", trace] if name == "traced" else []),
                ]
                for name, spec in specs.items()
            }
            preload = jemalloc()
            programs.append(
                Program(
                    "PyTorch eager: SDPA, fused AdamW" + (", jemalloc" if preload else ""),
                    twin["traced"],
                    result,
                    trace,
                    preload,
                )
            )
            commands.append(twin)
        for _ in range(arguments.rounds):
            for program in programs:
                program.round(model["vocab_size"])
        if not arguments.no_waiting:
            for program, command in zip(programs, commands):
                measure_waiting(program, command["short"], command["long"], arguments.threads)
    print(table(programs, context, arguments.threads))


if __name__ == "__main__":
    main()
