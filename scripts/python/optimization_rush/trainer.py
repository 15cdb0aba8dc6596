"""A callback for transformers' Trainer, and for TRL's trainers, which inherit it.

    from optimization_rush.trainer import Measured
    trainer = Trainer(..., callbacks=[Measured(tokens=batch * length)])
    trainer.train()

In an experiment, a step lasts from the end of one optimizer step to the end of the next, with its data. The host's
number of steps ends the training. Otherwise the callback does nothing.
"""
from typing import Any, Optional

from transformers import TrainerCallback

from .measurement import Measurement, Step


class Measured(TrainerCallback):
    """`tokens`: of an optimizer step, on all ranks and with accumulation."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.measurement: Optional[Measurement] = None
        self.step: Optional[Step] = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.measurement = Measurement.of_environment(self.tokens)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.measurement and not self.step:  # the first step: the data of the others is part of them
            self.step = self.measurement.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if not self.measurement or not self.step:
            return
        # The loss is logged after this callback. Reading it is not part of the step.
        assert self.measurement.clock is not None
        self.measurement.clock.stop()
        control.should_log = True
        if self.step.number + 1 >= self.measurement.count:
            control.should_training_stop = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if not self.measurement or not self.step or "loss" not in (logs or {}):
            return
        self.step.loss, self.step.grad_norm = logs["loss"], logs.get("grad_norm")
        self.measurement.end(self.step)
        self.step = self.measurement.begin()
        if self.step is None:
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.measurement:
            self.measurement.finish()
