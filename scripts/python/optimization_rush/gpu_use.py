"""Power and SM clock of a GPU over timed steps, by NVML: the field `gpu` of a RunResult, measured like the host does.

    use = GpuUse(uuid_of_a_gpu)     # "": no GPU
    use.start()
    ...                             # the timed steps
    use.stop()                      # when the device has finished them
    result |= use.fields()          # {} where NVML does not report anything
"""
import ctypes
import threading
import time

PERIOD_S, SM_CLOCK, POWER_CAP = 0.1, 1, 0x4


class GpuUse:
    def __init__(self, uuid, library="libnvidia-ml.so.1"):
        self.device, self.clocks, self.capped = None, [], []
        self.started = self.ended = self.sampler = None
        self.stopped = threading.Event()
        if not uuid:
            return
        try:
            self.nvml = ctypes.CDLL(library)
        except OSError:
            return
        device = ctypes.c_void_p()
        failed = self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(device))
        self.device = None if failed else device

    def read(self, function, kind, *arguments):
        """What a function of NVML writes; None if it does not report it."""
        value = kind()
        failed = getattr(self.nvml, function)(self.device, *arguments, ctypes.byref(value))
        return None if failed else value.value

    def energy(self):
        """Millijoules and the time at which they were read."""
        return self.read("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong), time.perf_counter()

    def sample(self):
        clock = self.read("nvmlDeviceGetClockInfo", ctypes.c_uint, SM_CLOCK)
        reasons = self.read("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong)
        self.clocks += [] if clock is None else [clock]
        self.capped += [] if reasons is None else [bool(reasons & POWER_CAP)]

    def watch(self):
        while not self.stopped.wait(PERIOD_S):
            self.sample()

    def start(self):
        if self.device and not self.started:
            self.sampler = threading.Thread(target=self.watch, daemon=True)
            self.sampler.start()
            self.started = self.energy()

    def stop(self):
        if self.started and not self.ended:
            self.ended = self.energy()
            self.stopped.set()
            self.sampler.join()
            if not self.clocks:
                self.sample()

    def fields(self):
        if not self.ended:
            return {}
        (before, begin), (after, end) = self.started, self.ended
        limit = self.read("nvmlDeviceGetEnforcedPowerLimit", ctypes.c_uint)
        gpu = {"watts": None if before is None or after is None else (after - before) / 1e3 / (end - begin),
               "sm_clock_mhz": sum(self.clocks) / len(self.clocks) if self.clocks else None,
               "power_limit_watts": None if limit is None else limit / 1e3,
               "at_power_cap": sum(self.capped) / len(self.capped) if self.capped else None}
        return {} if all(value is None for value in gpu.values()) else {"gpu": gpu}
