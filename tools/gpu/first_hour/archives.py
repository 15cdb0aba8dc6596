"""Packs the results of the calls so far into a few archives of limited size, which the next call unpacks on a new
machine."""
import functools
import os
import zipfile
import zlib
from pathlib import Path

FILES, BYTES = 8, 16 << 20  # most archives, most bytes of each
NAME = "first_hour_{}.zip"
ROOM = 1 << 12  # for the end of an archive, and what an entry's header takes beside its name
# The most important files come first; later files never displace them.
GROUPS = ("findings", "cache", "traces")


def group_of(path):
    """The group of a path below the work folder."""
    if path.parts[0] == "cache":
        return "cache"
    return "traces" if path.name.startswith("trace.json") else "findings"


def compressed_bytes(file):
    state = file.stat()
    return compressed_bytes_of(file, state.st_mtime_ns, state.st_size)


@functools.cache
def compressed_bytes_of(file, _changed, _size):
    """The compressed size. It is cached for unchanged files, because most files of a call are compiled code."""
    packer, size = zlib.compressobj(6, zlib.DEFLATED, -15), 0
    with open(file, "rb") as data:
        while piece := data.read(1 << 20):
            size += len(packer.compress(piece))
    return size + len(packer.flush()) + 2 * len(str(file)) + 128


def planned(work, skipped):
    """Lists of files, one for each archive, and the files for which there is no room."""
    by_group = {group: [] for group in GROUPS}
    for folder, folders, names in os.walk(work):
        folders[:] = sorted(name for name in folders if Path(folder, name).relative_to(work).parts[0] not in skipped)
        for name in sorted(names):
            file = Path(folder, name)
            if not name.isprintable():
                continue  # archives need names that are text
            if file.is_file() and not file.is_symlink():
                path = file.relative_to(work)
                by_group[group_of(path)].append(path)
    archives, left_out = [], []
    for group in GROUPS:
        room = 0
        for path in sorted(by_group[group]):
            size = compressed_bytes(work / path)
            if size > room:
                if size > BYTES - ROOM or len(archives) == FILES:
                    left_out.append(path)
                    continue
                archives.append([])
                room = BYTES - ROOM
            archives[-1].append(path)
            room -= size
    return archives, left_out


def pack(work, results, skipped=()):
    """Writes the archives of all files below `work` except the folders `skipped`. Returns the files for which there is
    no room."""
    results.mkdir(parents=True, exist_ok=True)
    archives, left_out = planned(work, skipped)
    for number, files in enumerate(archives):
        target = results / NAME.format(number)
        part = target.with_suffix(".part")
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=6, strict_timestamps=False) as archive:
            for path in files:
                archive.write(work / path, path)
        part.replace(target)
    for number in range(len(archives), FILES):
        (results / NAME.format(number)).unlink(missing_ok=True)
    return left_out


def unpack(results, work):
    """Unpacks the archives. Returns their number."""
    found = [results / NAME.format(number) for number in range(FILES) if (results / NAME.format(number)).exists()]
    for archive in found:
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(work)
    return len(found)
