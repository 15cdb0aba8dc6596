"""Seconds of a step and of its phases: by the host's clock on a CPU, and by CUDA events on a GPU, so that nothing waits
until the step has ended."""
import contextlib
import sys
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple


def gpu_in_use() -> bool:
    """Whether this process uses a GPU through torch. A program that has not imported torch does not."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()


class Clock:
    """Times a step: start(), phases, take(). A span without a name is time that does not count."""

    def __init__(self, gpu: bool, trace: bool = False) -> None:
        self.gpu, self.trace = gpu, trace
        self.spans: List[Tuple[Optional[str], Any, Any]] = []
        self.started: Any = None
        self.ended: Any = None

    def mark(self) -> Any:
        if not self.gpu:
            return time.perf_counter()
        event = sys.modules["torch"].cuda.Event(enable_timing=True)
        event.record()
        return event

    def start(self) -> None:
        self.spans.clear()
        self.started, self.ended = self.mark(), None

    def stop(self) -> None:
        """Ends the step before take(), which otherwise ends it."""
        self.ended = self.mark()

    @contextlib.contextmanager
    def phase(self, name: Optional[str]) -> Iterator[None]:
        started = self.mark()
        with sys.modules["torch"].profiler.record_function(name) if self.trace and name else contextlib.nullcontext():
            yield
        self.spans.append((name, started, self.mark()))

    def between(self, start: Any, end: Any) -> float:
        return float(start.elapsed_time(end)) / 1e3 if self.gpu else float(end - start)

    def phases(self) -> Dict[Optional[str], float]:
        """The phases since the last call. On a GPU it waits once, for the end of the step."""
        if self.gpu:
            sys.modules["torch"].cuda.synchronize()
        seconds: Dict[Optional[str], float] = {}
        for name, start, end in self.spans:
            seconds[name] = seconds.get(name, 0.0) + self.between(start, end)
        self.spans.clear()
        return seconds

    def take(self) -> Tuple[float, Dict[str, float]]:
        """Seconds since start() without those that do not count, and the seconds of each phase."""
        ended = self.mark() if self.ended is None else self.ended
        phases = self.phases()
        left_out = phases.pop(None, 0.0)
        return self.between(self.started, ended) - left_out, {str(name): value for name, value in phases.items()}
