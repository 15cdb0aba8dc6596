"""Damaged files of every kind that optrush reads: cut off, flipped, swapped, or replaced by something else."""

import os
import shutil

DAMAGES = ("truncated", "emptied", "flipped", "zeroed", "swapped", "of another kind", "removed", "a folder", "a pipe",
           "a device", "a link to itself")
REPORT = ("context.json", "experiment.json", "variants.json", "plans.json", "noise.jsonl", "runs/*/spec.json",
          "runs/*/result.json")
RESUMED = (*REPORT, "journal.jsonl", "runs/*/external.json", "runs/*/metrics.jsonl", "runs/*/log.txt",
           "runs/*/ranks/*/result.json")
MODEL = ("config.json", "model.safetensors", "ids.safetensors")
READ = {  # reader: patterns of the files that it reads
    "report": REPORT,
    "resume": RESUMED,
    "forward": MODEL,
    "worker": ("tokens.bin", "spec.json"),
    "plugins": ("misbehaves.so",),
    "script": ("ladder.lua",),
}
KINDS = tuple(f"{reader}: {damage}" for reader in READ for damage in DAMAGES)


def spoil(path, damage, random, others):
    """Damages the file and returns its old bytes. `others`: files of the same kind, then files of other kinds."""
    data = path.read_bytes()
    same, strange = others
    if damage == "truncated":
        path.write_bytes(data[: random.randrange(max(1, len(data)))])
    elif damage == "emptied":
        path.write_bytes(b"")
    elif damage in ("flipped", "zeroed"):
        length = min(len(data), 1 if damage == "flipped" else random.choice([8, 64, 512]))
        at = random.randrange(max(1, len(data) - length + 1))
        middle = bytes([data[at] ^ 1 << random.randrange(8)]) if damage == "flipped" and data else bytes(length)
        path.write_bytes(data[:at] + middle + data[at + length :])
    elif damage == "swapped" and same:
        path.write_bytes(random.choice(same).read_bytes())
    elif damage in ("swapped", "of another kind"):
        path.write_bytes(random.choice(strange).read_bytes())
    else:
        path.unlink()
        if damage == "a folder":
            (path / "inner").mkdir(parents=True)
        elif damage == "a pipe":
            os.mkfifo(path)
        elif damage == "a device":
            path.symlink_to("/dev/zero")
        elif damage == "a link to itself":
            path.symlink_to(path.name)
    return data


def restore(path, data):
    if path.is_symlink() or path.is_fifo() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def target(reader, folder, random):
    """A file of the folder, and other files to swap it with."""
    patterns = [pattern for pattern in READ[reader] if any(folder.glob(pattern))]
    pattern = random.choice(patterns)
    found = sorted(path for path in folder.glob(pattern) if path.is_file())
    path = random.choice(found)
    strange = [other for name in patterns if name != pattern for other in folder.glob(name) if other.is_file()]
    content = path.read_bytes()
    same = [other for other in found if other != path and other.read_bytes() != content]
    if not strange:
        strange = [other for other in sorted(folder.glob("*.*")) if other.is_file() and other != path]
    return path, (same, strange or [path])
