"""Expert parallelism of transformers and ours have the same losses and gradient norms on two ranks.

It needs a newer transformers than the other tests."""
import os
import tempfile

from newer_transformers import newer_python
from peer_runs import assert_agrees, run

RUNGS = ["experts over 2 ranks, the rest in shards", "transformers, experts over 2 ranks"]


def experts_over_two_ranks(folder):
    _, _, rows = run(folder, "moe", RUNGS, options=["--arg", "ranks=2", "--arg", "peers=true"],
                     **{"train.seq_len": 32, "train.steps": 3})
    assert rows[RUNGS[0]]["status"] == "ok", rows[RUNGS[0]]
    assert_agrees(rows[RUNGS[1]])


os.environ["OPTRUSH_PYTHON"] = str(newer_python())
with tempfile.TemporaryDirectory() as folder:
    experts_over_two_ranks(folder)
