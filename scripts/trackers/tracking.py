"""Writes the runs of a report for TensorBoard or Weights & Biases, by their own packages. Its job is a JSON file:

{"tracker": "tensorboard", "folder": "...", "experiment": "...", "runs": [...]}

as tracked_runs() makes them (core/report/writers/tracking.h). Exits with 3 where the package is missing, whose name it
prints.
"""

import json
import os
import sys
import time

MISSING = 3


def missing(package):
    print(package)
    sys.exit(MISSING)


def tensorboard(job):
    try:
        import tensorboard  # noqa: F401  (what torch's writer needs, so that an error names it)
    except ImportError:
        missing("tensorboard")
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        missing("torch")
    for run in job["runs"]:
        writer = SummaryWriter(os.path.join(job["folder"], run["id"]))
        # The relative time in TensorBoard is then the training time.
        at = time.time() - sum(step["seconds"] for step in run["steps"])
        for step in run["steps"]:
            at += step["seconds"]
            for name, value in step["values"].items():
                writer.add_scalar(name, value, step["step"], walltime=at)
        writer.add_hparams(
            {"rung": run["rung"], "purpose": run["purpose"], "round": run["round"], **run["hyperparameters"]},
            run["summary"], run_name=".")
        writer.close()


def wandb(job):
    os.environ["WANDB_SILENT"] = "true"
    try:
        import wandb as client
    except ImportError:
        missing("wandb")
    os.makedirs(job["folder"], exist_ok=True)
    for run in job["runs"]:
        offline = client.init(mode="offline", dir=job["folder"], project=job["experiment"], name=run["id"],
                              group=run["rung"], job_type=run["purpose"],
                              config={"rung": run["rung"], "round": run["round"], **run["hyperparameters"]},
                              settings=client.Settings(disable_git=True, console="off", x_disable_stats=True))
        for step in run["steps"]:
            offline.log(step["values"], step=step["step"])
        offline.summary.update(run["summary"])
        offline.finish()


with open(sys.argv[1], encoding="utf-8") as file:
    work = json.load(file)
{"tensorboard": tensorboard, "wandb": wandb}[work["tracker"]](work)
