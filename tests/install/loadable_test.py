"""The loader can protect the RELRO part of every built program and library: it begins in a page of a loaded segment.

mold 1.10 lets it begin before its segment if a byte of thread-local memory comes first (LibTorch's parallel loops have
one) and the code ends in the last bytes of a page. The loader then refuses the file: "cannot apply additional memory
protection after relocation". The build therefore asks mold for segments that begin on a page (-z separate-code).
"""

import os
import pathlib
import struct

LOAD, RELRO = 1, 0x6474E552
PAGE = 4096


def segments(data):
    """Type, flags, address and size in memory of each program header of a 64-bit file."""
    start, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, flags, _, address, _, _, length, _ = struct.unpack_from("<IIQQQQQQ", data, start + i * size)
        yield kind, flags, address, length


def problem(data):
    found = list(segments(data))
    loaded = [(address, length) for kind, _, address, length in found if kind == LOAD]
    for kind, _, address, _ in found:
        page = address // PAGE * PAGE
        if kind == RELRO and not any(a // PAGE * PAGE <= page < a + length for a, length in loaded):
            return f"RELRO at {address:#x} begins before its segment"
    writable = [address for kind, flags, address, _ in found if kind == LOAD and flags & 2]
    if os.environ.get("OPTRUSH_MOLD") and writable and writable[0] % PAGE:
        return f"its data at {writable[0]:#x} does not begin on a page"
    return None


def main():
    build = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"])
    checked = 0
    for folder in ("bin", "lib", "plugins", "tests/bin"):
        for path in sorted((build / folder).glob("*")):
            if not path.is_file() or path.is_symlink():
                continue
            with path.open("rb") as file:
                data = file.read(PAGE)
            if data[:4] != b"\x7fELF":
                continue
            wrong = problem(data)
            assert not wrong, f"{path.relative_to(build)}: {wrong}"
            checked += 1
    assert checked > 30, f"only {checked} files in {build}"


main()
