"""The stages, ordered by the worth of what they answer. A stage fits one call; two of them fit a quarter of an hour on
a GPU. docs/internals/gpu_quarter.md has the table."""

from dataclasses import dataclass

from quarter.expected import about, between, exactly, ratio
from quarter.steps import COMPILER, SHORT, Form, Step, check_step, experiment, flagship, memcheck_step, test_step

NO_WEIGHTS = 2e9  # bytes that a step of operators alone writes
FIRST, SECOND = 6.8, 5.2  # minutes of the two calls of a quarter of an hour


@dataclass(frozen=True)
class Stage:
    question: str
    minutes: float
    steps: tuple
    each_kind: bool = False  # asked again on each kind of card; otherwise one card is enough


DOCTOR = Step(
    "doctor",
    "What this card offers, also over seconds",
    0.6,
    (Form(0, lambda at: at.optrush("doctor", "--json", at.outputs / "doctor.json")),),
    shows="doctor",
    expected={
        "bf16 products, TFLOP/s": between(650, 830),
        "bf16 products over seconds, TFLOP/s": between(620, 760),
        "fp8 products over seconds, TFLOP/s": between(1050, 1500),
    },
)

OURS = flagship(
    "ours",
    "The flagship without a compiler",
    1.3,
    ["bf16 weights", "micro-batch 8", "fused projections", "cuBLASLt products", "updates on a second stream"],
    smaller=["bf16 weights"],
    expected={
        "bf16 weights, over base": ratio(1.47, 1.56),
        "micro-batch 8, over bf16 weights": ratio(1.0, 1.05),
        "fused projections, over micro-batch 8": ratio(1.005, 1.03),
        "cuBLASLt products, over fused projections": ratio(1.015, 1.035),
        "updates on a second stream, over fused projections": ratio(1.004, 1.01),
        "fused projections, tokens/s": about(67_000, 0.06),
    },
)

PEERS = ["torch.compile", "torch.compile by blocks", "Liger"]

FLOAT8 = flagship(
    "float8",
    "float8 by kernels beside torchao's",
    1,
    ["micro-batch 8", "float8 by kernels", "torchao float8"],
    smaller=["bf16 weights", "torchao float8"],
    tools=COMPILER,
    expected={
        "float8 by kernels, over micro-batch 8": ratio(1.12, 1.22),
        "float8 by kernels, over torchao float8": ratio(1.05, 1.25),
    },
)

# Of 16,384 tokens on an H200 or an H100, in milliseconds: estimates by the counts of the plan, not tested by a trace.
PARTS = {
    f"bf16 weights: {part}, ms": between(*of)
    for part, of in {"product": (150, 190), "attention": (35, 50), "loss": (2, 6), "elementwise": (12, 28),
                     "optimizer": (8, 14), "gaps": (0, 8)}.items()
}

FIRST_STEPS = (
    DOCTOR,
    OURS,
    flagship(
        "peers",
        "The fair programs of PyTorch",
        2,
        PEERS,
        tools=COMPILER,
        expected={
            "torch.compile, tokens/s": between(52_000, 63_000),
            "torch.compile by blocks, tokens/s": between(52_000, 63_000),
            "bf16 weights, over torch.compile": ratio(1.03, 1.25),
            "bf16 weights, over Liger": ratio(1.03, 1.35),
        },
    ),
    flagship(
        "trace",
        "Where the time of a step goes",
        0.75,
        lambda at: [*at.ours[:1], *at.peers[:1]],
        label="trace",
        more=("--trace",),
        shows="trace",
        expected=PARTS,
    ),
    FLOAT8,
    test_step("test_precision_gpu", 0.5),
    test_step("test_products_gpu", 0.4),
    test_step("test_fused_kernels_gpu", 0.6),
    test_step("test_nccl_gpu", 0.6, "every collective, 4 ranks on this GPU", environment={"OPTRUSH_SHARE_GPU": "1"}),
)


def lever(name, title, *settings, rung="fused projections", smaller="bf16 weights", **rest):
    """One change of the fastest rung, or of another, in a report of its own."""
    return flagship(name, title, 0.42, [rung], smaller=[smaller], label=name, settings=(*SHORT, *settings), **rest)


RANKS = ("test_data_parallel_ranks", "test_model_parallel_ranks")
CHUNK = ("--set", "fused_linear_cross_entropy.chunk=32768")
CUBLASLT = ("--set", "env.TORCH_BLAS_PREFER_CUBLASLT=1")
FAST_SUMS = ("--set", "float8.fast_sums=all")
DELAYED = ("--set", "float8.scales=delayed")
WINDOW = ("--set", "model.window=1024")
# Llama 3.1 8B's block, eight times.
WIDE = ("--set", "model.dim=4096", "--set", "model.n_layers=8", "--set", "model.n_heads=32",
        "--set", "model.ffn_dim=14336")
# Three times the loss of a short run: do the curves of bf16 and float8 part?
LONG = ("--set", "train.steps=300", "--set", "train.warmup=2", "--set", "train.seq_len=2048")


def counters(kernels):
    def command(at):
        return ["ncu", "--clock-control", "none", "--set", "basic", "--kernel-name", f"regex:{kernels}",
                "--launch-count", "12", "--csv", "--log-file", at.outputs / "kernels.csv",
                at.test_program("test_fused_kernels_gpu")]

    return command


STAGES = {
    1: Stage("Are we ahead of fair programs, and where does the time of a step go?", FIRST, FIRST_STEPS),
    2: Stage(
        "Is the lead certain, which lever is worth writing, and do ranks agree over NCCL?",
        SECOND,
        (
            flagship("rounds", "Two more rounds of the two best of each side", 1.8, lambda at: [*at.ours, *at.peers],
                     rounds=3,
                     tools=COMPILER),
            lever("chunk", "The loss in one chunk", *CHUNK,
                  expected={"fused projections, over ladder": ratio(1.0, 1.015)}),
            lever("cublaslt", "Products by cublasLt", *CUBLASLT,
                  expected={"fused projections, over ladder": ratio(0.98, 1.03)}),
            *(test_step(program, 1.5, "every strategy on ranks that share this GPU, against one process",
                        environment={"OPTRUSH_TEST_DEVICE": "cuda"}) for program in RANKS),
            Step("counters", "Hardware counters of the loss and of the norm's backward", 0.5,
                 (Form(0, counters("cross_entropy|norm_backward")),), shows="exit code", tools=("ncu",),
                 expected={"exit code": exactly(0)}),
        ),
    ),
    3: Stage(
        "Is float8 right, and what does it bring at the widths of an 8B model?",
        FIRST,
        (
            check_step("check_float8", "float8 alone, on experts as well", 1.2, "--plugin", "float8", "--kind", "alone",
                       "--kind", "resume"),
            flagship("wide", "Eight layers of Llama 3.1 8B: bf16, float8, torchao", 3.4,
                     ["micro-batch 8", "float8 by kernels", "torchao float8"],
                     smaller=["bf16 weights", "torchao float8"], label="wide", rounds=2, settings=(*SHORT, *WIDE),
                     tools=COMPILER,
                     expected={"float8 by kernels, over micro-batch 8": ratio(1.2, 1.27)}),
            experiment("kernels", "Each fused kernel against the memory's limit", 1.6, "kernels", least_bytes=20e9,
                       disk_bytes=NO_WEIGHTS),
        ),
    ),
    4: Stage(
        "Does float8 follow bf16 for 300 steps?",
        SECOND,
        (
            flagship("converge", "300 steps of bf16 and float8 at 2,048 tokens", 4.6,
                     ["micro-batch 8", "float8 by kernels"], smaller=["bf16 weights"], label="converge", settings=LONG),
        ),
    ),
    5: Stage(
        "What do checkpointing and long sequences cost at size?",
        FIRST,
        (
            experiment("single_gpu", "Checkpointing in four forms, and 32,768 tokens", 6, "single_gpu", "--preset",
                       "full", "--only", "full checkpointing", "--only", "selective checkpointing", "--only",
                       "checkpointing by budget", "--only", "sequence 32768", "--only",
                       "sequence 32768, full checkpointing"),
        ),
    ),
    6: Stage(
        "What do optimizers and adapters cost at size?",
        SECOND,
        (
            experiment("optimizers", "Optimizers, and moments in 8 bits", 2.4, "optimizers", least_bytes=44e9),
            experiment("qlora", "Adapters, and matrices in 4 bits", 1.6, "qlora", least_bytes=44e9),
            test_step("test_gpu_kernel_gpu", 0.5),
            test_step("test_cuda_graphs_gpu", 0.5),
        ),
    ),
    7: Stage(
        "What do attention and experts cost at size, and what do delayed scales and fast sums bring to float8?",
        FIRST,
        (
            experiment("attention", "Attention alone over lengths", 2.4, "attention", least_bytes=20e9,
                       disk_bytes=NO_WEIGHTS),
            experiment("moe", "A mixture of experts, with grouped products", 3, "moe"),
            lever("delayed", "float8 with delayed scales, SwiGLU and norms in 8 bits", *DELAYED,
                  rung="float8 by kernels", smaller="float8", tools=COMPILER,
                  expected={"float8 by kernels, over ladder": ratio(1.02, 1.06)}),
            lever("fast_sums", "float8 with fast sums in the backward as well", *FAST_SUMS, rung="float8 by kernels",
                  smaller="float8", tools=COMPILER,
                  expected={"float8 by kernels, over ladder": ratio(1.01, 1.05)}),
        ),
    ),
    8: Stage(
        "Is every plugin right?",
        SECOND,
        (
            # Compiled code is compared with eager code, which computes nothing on the stand-in: stage 9 has these.
            check_step("check", "Every plugin, alone and with the others", 4.6, without_values=[
                word for kind in ("alone", "gradient", "types", "resume", "pair") for word in ("--kind", kind)
            ]),
        ),
    ),
    9: Stage(
        "Is every plugin right under the compiler, and is each access to memory?",
        FIRST,
        (
            check_step("check_compiled", "Every plugin under the compiler, the most informative ones first", 3.7,
                       "--kind", "compiled", without_values=("--plugin", "compile:self_check=false")),
            memcheck_step("test_gpu_kernel_gpu", 1),
            memcheck_step("test_fused_kernels_gpu", 1.5),
        ),
    ),
    10: Stage("Does the other kind of card agree?", FIRST, FIRST_STEPS, each_kind=True),
    11: Stage(
        "What do the tuned compilers of both sides bring?",
        SECOND,
        (
            flagship("autotuned", "max-autotune of both sides", 4.6,
                     ["compile", "compile, max-autotune", "torch.compile by blocks, max-autotune"], tools=COMPILER),
        ),
    ),
    12: Stage(
        "Is every kernel of attention right, and does cuDNN compute windows faster than FlashAttention?",
        SECOND,
        (
            test_step("test_flash_attention_gpu", 0.5),
            # 44 % of the pairs of causal attention: at most 20 of 340 ms.
            flagship("windows", "A window of 1,024 in every layer: FlashAttention, and graphs of cuDNN", 0.6,
                     ["attention cudnn"], label="windows", settings=(*SHORT, *WINDOW),
                     expected={"attention cudnn, over base": ratio(1.0, 1.06)}),
        ),
    ),
}


def all_steps():
    """Each step once, by name."""
    return {step.name: step for stage in STAGES.values() for step in stage.steps}


def stage_of(name):
    """The first stage that has the step."""
    return next(number for number, stage in STAGES.items() if any(step.name == name for step in stage.steps))


PROGRAMS = sorted(name for name in all_steps() if name.startswith("test_"))
