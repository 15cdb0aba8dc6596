"""A callback for Lightning.

    from optimization_rush.lightning import Measured
    trainer = Trainer(..., callbacks=[Measured(tokens=batch * length)])

In an experiment, a step lasts from the end of one optimizer step to the end of the next, with its data. The host's
number of steps ends the training. Otherwise the callback does nothing.
"""
from typing import Any, Optional

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback

from .measurement import Measurement, Step


class Measured(Callback):
    """`tokens`: of an optimizer step, on all ranks and with accumulation."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.measurement: Optional[Measurement] = None
        self.step: Optional[Step] = None
        self.made = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.measurement = Measurement.of_environment(self.tokens)
        self.made = trainer.global_step

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self.measurement and not self.step:
            self.step = self.measurement.begin()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if not self.measurement or not self.step:
            return
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:  # Lightning divides it by the number of batches of an accumulation
            self.step.loss = loss if self.step.loss is None else self.step.loss + loss
        if trainer.global_step == self.made:
            return  # the accumulation continues
        self.made = trainer.global_step
        self.measurement.end(self.step)
        self.step = self.measurement.begin()
        if self.step is None:
            trainer.should_stop = True

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self.measurement:
            self.measurement.finish()
