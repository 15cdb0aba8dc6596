"""Packs the results of the calls so far into a few archives of limited size, which the next call unpacks on a new
machine."""
import functools
import os
import zipfile
import zlib
from pathlib import Path

FILES, BYTES = 6, 16 << 20  # most archives, most bytes of each
# The most important files come first; later files never displace them. NAME_0.zip, NAME_1.zip, ...
GROUPS = ("findings", "cache", "traces")
ROOM = 1 << 12  # for the end of an archive, and what an entry's header takes beside its name


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


def files_below(work, skipped):
    """The files below `work` except the folders `skipped`, by group."""
    by_group = {group: [] for group in GROUPS}
    for folder, folders, names in os.walk(work):
        folders[:] = sorted(name for name in folders if Path(folder, name).relative_to(work).parts[0] not in skipped)
        for name in sorted(names):
            file = Path(folder, name)
            # Archives need names that are text.
            if name.isprintable() and file.is_file() and not file.is_symlink():
                path = file.relative_to(work)
                by_group[group_of(path)].append(path)
    return by_group


def planned(work, by_group):
    """Lists of files by name of the archive, and the files for which there is no room."""
    archives, left_out = {}, []
    for group in GROUPS:
        room, name = 0, ""
        for path in sorted(by_group[group]):
            size = compressed_bytes(work / path)
            if size > room:
                if size > BYTES - ROOM or len(archives) == FILES:
                    left_out.append(path)
                    continue
                name = f"{group}_{sum(other.startswith(group) for other in archives)}.zip"
                archives[name] = []
                room = BYTES - ROOM
            archives[name].append(path)
            room -= size
    return archives, left_out


def write(target, work, files):
    part = target.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=6, strict_timestamps=False) as archive:
        for path in files:
            archive.write(work / path, path)
    part.replace(target)


def packed(results):
    return sorted(file for group in GROUPS for file in results.glob(f"{group}_*.zip"))


def pack(work, results, skipped=(), everything=True):
    """Writes the archives of all files below `work` except the folders `skipped`; otherwise of the findings alone,
    which takes no time. Returns the files for which there is no room."""
    results.mkdir(parents=True, exist_ok=True)
    by_group = files_below(work, skipped)
    if not everything:
        by_group = {group: files if group == GROUPS[0] else [] for group, files in by_group.items()}
    archives, left_out = planned(work, by_group)
    for name, files in archives.items():
        write(results / name, work, files)
    for file in packed(results):
        if file.name not in archives and (everything or file.name.startswith(GROUPS[0])):
            file.unlink()
    return left_out


def unpack(results, work):
    """Unpacks the archives. Returns their number."""
    found = packed(results)
    for archive in found:
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(work)
    return len(found)
