"""Asks the driver about its version and its GPUs. It needs no CUDA context, so it takes no memory of a GPU
and no time."""

import ctypes
import re
from dataclasses import dataclass
from pathlib import Path

OK, LONGEST = 0, 256
PROC = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Gpu:
    name: str
    total_bytes: int
    free_bytes: int


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def text_of(function, *arguments):
    text = ctypes.create_string_buffer(LONGEST)
    return text.value.decode(errors="replace") if function(*arguments, text, LONGEST) == OK else ""


def driver_of_kernel():
    """The version in /proc, if NVML cannot be asked; "": no driver is loaded."""
    try:
        found = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", PROC.read_text())
    except OSError:
        return ""
    return found[1] if found else ""


def ask():
    """The driver's version ("": there is none) and its GPUs."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return driver_of_kernel(), []
    if nvml.nvmlInit_v2() != OK:
        return driver_of_kernel(), []
    try:
        count = ctypes.c_uint()
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        return text_of(nvml.nvmlSystemGetDriverVersion), [gpu_of(nvml, index) for index in range(count.value)]
    finally:
        nvml.nvmlShutdown()


def gpu_of(nvml, index):
    device, memory = ctypes.c_void_p(), Memory()
    nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device))
    nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory))
    return Gpu(text_of(nvml.nvmlDeviceGetName, device), memory.total, memory.free)
