"""Damaged files and the commands that read them: a command names the bad file, or the damage changes nothing."""

import json
import shutil
import struct
import time

import chains
import fault_files
import invariants
import processes
import scenes


class Reader:
    """A folder with files to damage, and a command that reads it."""

    def __init__(self, campaign, name, mark):
        self.campaign, self.name, self.mark = campaign, name, mark
        self.folder = campaign.folder / f"reader-{name}"
        if not self.folder.exists():
            self.make()
            end = self.run()
            assert end.code == 0, (name, end.text)
            self.usual = self.look(end)
            (self.folder.parent / f"{name}.usual").write_text(json.dumps(self.usual))
        self.usual = json.loads((self.folder.parent / f"{name}.usual").read_text())

    def make(self):
        self.folder.mkdir()
        ladder = chains.reference(self.campaign, "ladder").scene
        if self.name == "report":
            shutil.copytree(ladder.report, self.folder, dirs_exist_ok=True)
        elif self.name == "plugins":
            shutil.copy(scenes.BUILD / "tests" / "plugins" / "misbehaves.so", self.folder)
        elif self.name == "script":
            scenes.Scene("ladder", self.folder)
        else:
            spec = json.loads((ladder.report / "runs" / "00-base-r1" / "spec.json").read_text())
            spec["data"]["path"] = str(self.folder / "tokens.bin")
            (self.folder / "tokens.bin").write_bytes(scenes.tokens())
            (self.folder / "spec.json").write_text(json.dumps(spec))
            if self.name == "forward":
                end = self.command("export", "--spec", self.folder / "spec.json", "--out", self.folder / "model")
                assert end.code == 0, end.text
                for name in ("config.json", "model.safetensors"):
                    (self.folder / "model" / name).rename(self.folder / name)
                self.write_ids()

    def write_ids(self):
        head = json.dumps({"input_ids": {"dtype": "I64", "shape": [1, 16], "data_offsets": [0, 128]}}).encode()
        ids = b"".join(struct.pack("<q", 3 * i % 64) for i in range(16))
        (self.folder / "ids.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + ids)

    def command(self, *words, program="optrush-worker"):
        return scenes.Ended(scenes.start([scenes.BUILD / "bin" / program, *words], self.mark))

    def run(self):
        if self.name == "report":
            ladder = chains.reference(self.campaign, "ladder").scene
            return self.command("compare", "--json", ladder.report, self.folder, program="optrush")
        if self.name == "plugins":
            return self.command("plugins", "misbehaves", "--plugin-path", self.folder, program="optrush")
        if self.name == "script":
            return self.command("run", self.folder / "ladder.lua", "--dry-run", "--json", program="optrush")
        if self.name == "worker":
            return self.command("worker", "--spec", self.folder / "spec.json", program="optrush")
        return self.command("forward", "--model", self.folder, "--tokens", self.folder / "ids.safetensors", "--out",
                            self.folder / "out.safetensors", "--device", "cpu")

    def look(self, end):
        """The command's result without times."""
        if end.code != 0:
            return None
        if self.name == "worker":
            return invariants.of_result(json.loads(end.text[end.text.index("{"):]))
        if self.name == "forward":
            return (self.folder / "out.safetensors").read_bytes().hex()
        if self.name == "report":
            compared = json.loads(end.text)
            for report in compared["reports"]:
                del report["warnings"]  # of the machine's noise, which is measured in times
            return compared
        return end.text


def judge(reader, path, damage, end):
    """Checks the message and, if the command succeeded, whether its result is still right."""
    found = {"left": processes.left(reader.mark), "unclear": invariants.unclear(end)}
    if not found["unclear"] and end.code != 0 and path.name not in end.text and path.stem not in end.text:
        found["unclear"] = f"does not name {path.name}: " + end.text[-300:]
    silent = end.code == 0 and not found["unclear"]
    if silent and reader.look(end) != reader.usual and not legitimate(reader, path, damage):
        found["differs"] = f"{damage} {path.relative_to(reader.folder)}: read as if it were whole"
    return found


def legitimate(reader, path, damage):
    """True if the damaged file is valid input, or if a missing file is allowed."""
    if damage == "removed" and reader.name == "report":
        return True  # the report lists the run as missing
    return reader.name in ("forward", "worker", "script") and path.suffix in (".safetensors", ".json", ".bin", ".lua") \
        and damage not in ("truncated", "emptied", "a folder", "a pipe", "a device", "a link to itself")


def chain(campaign, number, name, damages):
    if name == "resume":
        return resumed(campaign, number, damages)
    random, told = campaign.random(number), []
    reader = Reader(campaign, name, f"chain-{campaign.seed}-{number}")
    for position, damage in enumerate(damages):
        path, others = fault_files.target(name, reader.folder, random)
        data = fault_files.spoil(path, damage, random, others)
        begin = time.monotonic()
        found = judge(reader, path, damage, reader.run())
        fault_files.restore(path, data)
        file = str(path.relative_to(reader.folder))
        told.append(chains.fault(number, position, name, f"{name}: {damage}", file=file, **found,
                                 seconds=round(time.monotonic() - begin, 2)))
    return told


def resumed(campaign, number, damages):
    """`--resume` with damaged files: it names the bad file and refuses, or repeats the run with an equal result."""
    random, told = campaign.random(number), []
    going_reference = chains.reference(campaign, random.choice(chains.RUNNING))
    scene, mark = going_reference.scene, f"chain-{campaign.seed}-{number}"
    stored = campaign.folder / "stored"
    shutil.rmtree(stored, ignore_errors=True)
    shutil.copytree(scene.report, stored, symlinks=True)
    there = invariants.of_report(stored)
    try:
        for position, damage in enumerate(damages[:3]):
            path, others = fault_files.target("resume", scene.report, random)
            data = fault_files.spoil(path, damage, random, others)
            begin = time.monotonic()
            end = scene.run(mark)
            found = {"left": processes.left(mark), "unclear": invariants.unclear(end, path.name)}
            if end.code != 0:  # optrush refused; the user restores the file
                fault_files.restore(path, data)
                end = scene.run(mark)
                found["unclear"] = found["unclear"] or invariants.unclear(end, may_fail=False)
            try:
                found["differs"] = invariants.difference(there, invariants.of_report(scene.report))
            except (OSError, ValueError, KeyError) as problem:
                found["differs"] = f"there is no report: {problem!r}"
            file = str(path.relative_to(scene.report))
            told.append(chains.fault(number, position, scene.name, f"resume: {damage}", file=file, **found,
                                     seconds=round(time.monotonic() - begin, 2)))
            shutil.rmtree(scene.report)
            shutil.copytree(stored, scene.report, symlinks=True)
    finally:
        shutil.rmtree(scene.report, ignore_errors=True)
        shutil.copytree(stored, scene.report, symlinks=True)
    return told
