"""The steps of a training script, as a run of an experiment (docs/guides/your_script.md).

    for step in steps(tokens=batch * length):
        with step.phase("forward"):      # optional
            loss = ...
        step.loss = loss                 # optional: a tensor or a number, read when the step has been timed

Without the host the loop does the same steps, and measures and writes nothing.
"""
import contextlib
import itertools
import json
import os
import statistics
import sys
import time
from typing import Any, ContextManager, Dict, Iterator, List, Optional

from .clock import Clock, gpu_in_use
from .files import Journal, finite, memory_peaks, write_result
from .gpu_use import GpuUse
from .interleaving import Interleaving

_NOTHING: ContextManager[None] = contextlib.nullcontext()


class Step:
    """A step of the loop. `loss`, `grad_norm`: a tensor or a number. `tokens`: of all ranks together."""

    __slots__ = ("number", "tokens", "loss", "grad_norm", "_clock")

    def __init__(self, number: int, tokens: int, clock: Optional[Clock] = None) -> None:
        self.number, self.tokens, self._clock = number, tokens, clock
        self.loss: Any = None
        self.grad_norm: Any = None

    def phase(self, name: str) -> ContextManager[None]:
        """A part of the step: data, forward, backward, communication, optimizer or another name."""
        return self._clock.phase(name) if self._clock else _NOTHING

    def untimed(self) -> ContextManager[None]:
        """A part of the body that does not count: logging, evaluation."""
        return self._clock.phase(None) if self._clock else _NOTHING


def _number(value: Any, what: str, step: int) -> Optional[float]:
    """A tensor or number as JSON stores it."""
    try:
        return None if value is None else finite(float(value))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"step {step}: {what} must be a number or a tensor with one element, but is "
                        f"{type(value).__name__}: {error}; assign one: step.{what} = loss.mean()") from None


class Measurement:
    """A run that the host has started."""

    @classmethod
    def of_environment(cls, tokens: int) -> "Optional[Measurement]":
        """None if no host has started this program."""
        return cls(tokens) if os.environ.get("OPTRUSH_SPEC") and os.environ.get("OPTRUSH_OUT") else None

    def __init__(self, tokens: int) -> None:
        self.begun = time.perf_counter()
        with open(os.environ["OPTRUSH_SPEC"]) as text:
            train = json.load(text)["train"]
        self.warmup, self.count = int(train["warmup"]), int(train["warmup"]) + int(train["steps"])
        self.rank, self.ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.tokens, self.records = tokens, []  # type: int, List[Dict[str, Any]]
        self.journal = Journal(os.environ.get("OPTRUSH_METRICS") if self.rank == 0 else None)
        self.turns = Interleaving(self.rank, self.ranks, ends=self.ranks == 1)
        self.clock: Optional[Clock] = None
        self.power = GpuUse("")
        self.timed = self.ended = False
        self.setup_seconds = 0.0

    def begin(self) -> Optional[Step]:
        """Waits for the turn and begins a step. None: all steps are made."""
        number = len(self.records)
        if self.ended or number >= self.count:
            return None
        if self.clock is None or number == self.warmup:
            self.prepare(number)
        assert self.clock is not None
        self.timed = number >= self.warmup and self.turns.step(self.records[-1]["seconds"] if self.records else 0.0)
        if self.turns.ended:
            self.ended = True
            return None
        self.clock.start()
        return Step(number, self.tokens, self.clock)

    def prepare(self, number: int) -> None:
        """A model may move to the GPU in the first step, so the device is looked at again before the timed ones."""
        gpu = gpu_in_use()
        self.clock = Clock(gpu)
        if number == 0:
            self.setup_seconds = time.perf_counter() - self.begun
        if gpu and number == self.warmup:
            cuda = sys.modules["torch"].cuda
            cuda.reset_peak_memory_stats()
            if self.turns.stream is None:  # otherwise other runs use the GPU in between
                self.power = GpuUse(f"GPU-{cuda.get_device_properties(cuda.current_device()).uuid}")
                self.power.start()

    def end(self, step: Step) -> None:
        """Ends a step, and then reads its loss."""
        assert self.clock is not None
        seconds, phases = self.clock.take()
        if isinstance(step.tokens, bool) or not isinstance(step.tokens, int) or step.tokens <= 0:
            raise ValueError(f"step {step.number}: tokens is {step.tokens!r}; give the number of tokens of a step on "
                             "all ranks: steps(tokens=batch * length)")
        record = {"step": step.number, "timed": self.timed, "tokens": step.tokens, "seconds": seconds,
                  "grad_norm": _number(step.grad_norm, "grad_norm", step.number), "phases": phases}
        if step.loss is not None:
            record["loss"] = _number(step.loss, "loss", step.number)
        self.records.append(record)
        self.journal.add("step", **record)

    def finish(self) -> None:
        """Writes the result of the steps so far. Without a timed step there is none, which the host reports."""
        self.power.stop()
        timed = [record for record in self.records if record["timed"]]
        if self.rank != 0 or not timed:
            return
        assert self.clock is not None
        gpu = self.clock.gpu
        median = statistics.median(record["seconds"] for record in timed)
        result: Dict[str, Any] = {
            "schema_version": 1, "status": "ok", "reason": "", "steps": self.records, "step_seconds": median,
            "tokens_per_second": statistics.median(record["tokens"] / record["seconds"] for record in timed),
            "memory": memory_peaks(gpu), "setup_seconds": self.setup_seconds}
        names = timed[0]["phases"]
        if names and all(record["phases"].keys() == names.keys() for record in timed):
            result["phases"] = {name: statistics.median(record["phases"][name] for record in timed) for name in names}
        if torch := sys.modules.get("torch"):
            result["device"] = {"type": "cuda" if gpu else "cpu", "name": "", "threads": torch.get_num_threads()}
            result["notes"] = [f"torch {torch.__version__} in Python"]
        write_result(os.environ["OPTRUSH_OUT"], {**result, **self.power.fields()})


def steps(tokens: int, count: Optional[int] = None) -> Iterator[Step]:
    """The steps of a training loop. `tokens`: of a step on all ranks. `count`: the number of steps without the host;
    None: endless. In an experiment the host gives the number, which `count` does not change."""
    measurement = Measurement.of_environment(tokens)
    if measurement is None:
        for number in itertools.count() if count is None else range(count):
            yield Step(number, tokens)
        return
    try:
        while (step := measurement.begin()) is not None:
            yield step
            measurement.end(step)
    except GeneratorExit:  # a `break`: the present step is not complete
        pass
    measurement.finish()
