"""A plan states the size of saved states, exported weights and disk space: the files have these sizes to the byte."""
import json
import os
import pathlib
import re
import subprocess
import tempfile

OPTRUSH = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]) / "bin/optrush"
SCRIPT = """
local rush = require "optrush"
local exp = rush.experiment {
  name = "planned", model = rush.llama "nano", device = "cpu", threads = 1,
  train = { micro_batch = 2, seq_len = 16, steps = 3, warmup = 1 },
  validate = { every = 2, sequences = 3, keep_best = true },
  save = { every = 2 },
}
exp:grid { {
  rush.rung("masters", "bf16_weights"),
  rush.rung("8 bits", "adamw_8bit"),
  rush.rung("averaged", "schedule_free"),
  rush.rung("adapter", "lora", { rank = 4 }),
  rush.rung("shards", "fsdp", {}, { train = { world_size = 2, micro_batch = 1 } }),
} }
exp:run { rounds = 1 }
"""


def optrush(*words):
    done = subprocess.run([OPTRUSH, *words], cwd=work, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dry_run(*more):
    (shown,) = json.loads(optrush("run", "planned.lua", "--dry-run", "--json", *more))
    return shown, {variant["name"]: plan for variant, plan in zip(shown["variants"], shown["plans"])}


def sizes(folder, pattern):
    return [file.stat().st_size for file in sorted(folder.glob(pattern))]


def states_have_their_planned_sizes():
    text = optrush("run", "planned.lua", "--dry-run")
    for words in ("a saved state takes ", "at most 4 states saved", "exported weights: ",
                  "validation: at most 2 times"):
        assert text.count(words) == 6, (words, text)
    assert "as the last save of this machine" not in text, text
    whole, cut = re.search(r"([\d,]+) parameters, \1 trained, [^;]*; rank 0 keeps ([\d,]+)$", text, re.M).groups()
    assert whole in text.split("plan\n")[1] and int(whole.replace(",", "")) == 2 * int(cut.replace(",", "")), text
    shown, plans = dry_run()
    assert shown["write_bytes_per_second"] is None, shown["write_bytes_per_second"]

    optrush("run", "planned.lua")
    report = work / "reports/planned/local"
    stored = dict(zip((variant["name"] for variant in shown["variants"]),
                      json.loads((report / "plans.json").read_text())))
    rates = set()
    for index, (name, plan) in enumerate(plans.items()):
        saving, validation = plan["saving"], plan["validation"]
        assert stored[name]["saving"] == saving, (name, stored[name]["saving"], saving)
        (run,) = report.glob(f"runs/{index:02}-*-r1")
        result = json.loads((run / "result.json").read_text())
        assert result["status"] == "ok", result["reason"]
        assert sizes(run / "state", "step-*/rank-*.safetensors") == saving["part_bytes"], (name, saving)
        size = sum(saving["part_bytes"])
        assert [point["bytes"] for point in result["saved"]] == 2 * [size], (name, result["saved"], saving)
        assert sizes(run / "best", "step-*/rank-*.safetensors") == saving["part_bytes"], (name, saving)
        assert saving["kept_bytes"] == 2 * size and saving["disk_bytes"] == 3 * size, (name, saving)
        assert saving["states"] == 4 and "device_bytes" not in saving, (name, saving)
        assert validation["times"] == len(result["validation"]), (name, validation)
        assert validation["positions"] == 4 * 16 and 0 < validation["flops_share"] < 1, (name, validation)
        rates.add(sum(point["bytes"] for point in result["saved"]) / sum(point["seconds"] for point in result["saved"]))
        weights = work / f"weights-{index}"
        optrush("weights", run, weights)
        merged = "merged_weights" in saving
        file = "adapter_model.safetensors" if merged else "model.safetensors"
        assert sizes(weights, file) == [saving["weights"]["bytes"]], (name, saving)
        assert merged == (name == "adapter"), name
        if merged:
            optrush("weights", run, work / "merged", "--merge")
            assert sizes(work / "merged", "model.safetensors") == [saving["merged_weights"]["bytes"]], saving
    assert len({json.dumps(plan["saving"]["part_bytes"]) for plan in plans.values()}) >= 5, "rungs save other tensors"
    table = (report / "report.md").read_text().split("Saved states")[1]
    assert "| size | predicted | saved in |" in " ".join(table.split()), table

    shown, _ = dry_run("--label", "next")
    assert shown["write_bytes_per_second"] in rates, (shown["write_bytes_per_second"], rates)
    assert "as the last save of this machine" in optrush("run", "planned.lua", "--dry-run", "--label", "next")


def write_documents(characters):
    lines = [json.dumps({"text": f"document {i} ".ljust(characters, ".")}) + "\n" for i in range(40)]
    (work / "documents.jsonl").write_text("".join(lines))


def epochs_of_large_documents_have_no_counts():
    """A plan reads at most 16 MiB of documents."""
    write_documents(450_000)
    (work / "planned.lua").write_text("""
local rush = require "optrush"
local exp = rush.experiment {
  name = "epochs", model = rush.llama "nano", data = rush.documents "documents.jsonl", device = "cpu", threads = 1,
  train = { micro_batch = 2, seq_len = 16, epochs = 20 },
  validate = { every = 2, sequences = 3 },
  save = { every = 2 },
}
exp:run { rounds = 1 }
""")
    text = optrush("run", "planned.lua", "--dry-run")
    assert "states are saved until the last epoch ends, " in text, text
    assert "validation: until the last epoch ends, each " in text, text
    assert "note: the documents (17.2 MiB) are read when a run starts; a plan does not check them" in text, text
    ((plan,),) = [shown["plans"] for shown in json.loads(optrush("run", "planned.lua", "--dry-run", "--json"))]
    assert plan["saving"]["states"] is None and plan["validation"]["times"] is None, plan


def other_epochs_have_counts():
    """37 of 40 sequences are trained, 20 times, two a step."""
    write_documents(12)
    documents = optrush("run", "planned.lua", "--dry-run")
    assert "at most 185 states saved, " in documents and "are read when a run starts" not in documents, documents
    (work / "text.txt").write_text("x" * 17 * 40)
    script = (work / "planned.lua").read_text()
    (work / "planned.lua").write_text(script.replace("rush.documents \"documents.jsonl\"", "rush.text \"text.txt\""))
    text = optrush("run", "planned.lua", "--dry-run")
    assert "at most 185 states saved, " in text and "validation: at most 185 times, each " in text, text
    for changed, said in (("--set=train.epochs=1", "at most 10 states"), ("--set=train.steps=30", "at most 17 states")):
        text = optrush("run", "planned.lua", "--dry-run", changed)
        assert said in text, (changed, text)


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    (work / "planned.lua").write_text(SCRIPT)
    states_have_their_planned_sizes()
    epochs_of_large_documents_have_no_counts()
    other_epochs_have_counts()
