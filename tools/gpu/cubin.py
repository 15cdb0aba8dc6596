"""Reads the resources of each kernel of a cubin. A cubin is an ELF file with machine code for one kind of GPU."""

import struct
from dataclasses import dataclass

MAGIC = b"\x7fELF"
MACHINE = 190  # EM_CUDA
SECTION = "<IIQQQQIIQQ"
SYMBOL = "<IBBHQQ"
# Sections .nv.info are lists of (format, attribute, size), where format 4 is followed by `size` bytes. In the section
# of the whole file the bytes are the number of a symbol and a value; in the section of a kernel, only values.
SIZED, REGISTERS, FRAME = 4, 0x2F, 0x11
THREADS = (0x05, 0x10)  # at most, exactly


@dataclass
class Kernel:
    name: str           # the symbol
    arch: str           # "sm_90"
    registers: int = 0  # of a thread
    stack: int = 0      # bytes of a thread: spilled registers, or arrays that are not in registers
    shared: int = 0     # bytes of a block; what a launch adds is not known here
    threads: int = 0    # the most of a block, where the kernel states it


class NoCubin(ValueError):
    pass


class Elf:
    def __init__(self, image):
        self.image = image
        if len(image) < 64 or not image.startswith(MAGIC) or self.read("<H", 0x12)[0] != MACHINE:
            raise NoCubin("it is no cubin")
        start, (size, count, names) = self.read("<Q", 0x28)[0], self.read("<HHH", 0x3A)
        self.sections = [self.read(SECTION, start + number * size) for number in range(count)]
        self.names = [self.text(self.sections[names], section[0]) for section in self.sections]

    def read(self, form, at):
        if at + struct.calcsize(form) > len(self.image):
            raise NoCubin("the cubin is cut short")
        return struct.unpack_from(form, self.image, at)

    def text(self, section, at):
        begin = section[4] + at
        return self.image[begin:self.image.index(b"\0", begin)].decode()

    def arch(self):
        flags, version = self.read("<I", 0x30)[0], self.image[8]
        return f"sm_{flags >> 8 & 0xFF if version >= 8 else flags & 0xFF}"

    def symbols(self):
        """The names of symbols by number."""
        table = next(section for section, name in zip(self.sections, self.names) if name == ".symtab")
        step = struct.calcsize(SYMBOL)
        return [
            self.text(self.sections[table[6]], self.read(SYMBOL, table[4] + at)[0]) for at in range(0, table[5], step)
        ]

    def attributes(self, section):
        """Pairs of an attribute and the place of its values."""
        at, end = section[4], section[4] + section[5]
        while at + 4 <= end:
            form, attribute, size = self.read("<BBH", at)
            if form == SIZED:
                yield attribute, at + 4
            at += 4 + (size if form == SIZED else 0)


def kernels_of(image):
    """The kernels of a cubin. Raises NoCubin if the bytes are not a cubin."""
    elf = Elf(image)
    kernels = {name.removeprefix(".text."): Kernel(name.removeprefix(".text."), elf.arch())
               for name in elf.names if name.startswith(".text.")}
    symbols = elf.symbols()
    for section, name in zip(elf.sections, elf.names):
        if name == ".nv.info":
            for attribute, at in elf.attributes(section):
                if attribute in (REGISTERS, FRAME):
                    symbol, value = elf.read("<II", at)
                    if kernel := kernels.get(symbols[symbol]):
                        setattr(kernel, "registers" if attribute == REGISTERS else "stack", value)
        elif kernel := kernels.get(name.removeprefix(".nv.info.")):
            for attribute, at in elf.attributes(section):
                if attribute in THREADS:
                    x, y, z = elf.read("<III", at)
                    kernel.threads = x * y * z
        elif kernel := kernels.get(name.removeprefix(".nv.shared.")):
            kernel.shared = section[5]
    return list(kernels.values())
