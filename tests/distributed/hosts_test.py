"""Two hosts joined by a link: the report counts the same bytes as the network interface."""

import sys

from hosts import Hosts, NotAllowed, result_of, script_with, temporary_folder

RUNGS = {
    "ddp": 'rush.rung("ddp", "ddp", {}, { train = { world_size = 2 } })',
    "fsdp": 'rush.rung("fsdp", "fsdp", { stage = 3 }, { train = { world_size = 2 } })',
}


def crossed(hosts, folder, rung, steps):
    """The bytes that a run of `steps` steps sends over the link, and the bytes that its result counts for one step."""
    script = script_with(folder, f"{rung}{steps}", [RUNGS[rung]], steps)
    before = hosts.sent_bytes()
    report = hosts.train(script, ranks_per_host=1, reports=folder)
    result = result_of(report, rung)
    assert result["status"] == "ok", result["reason"]
    assert len(result["ranks"]) == 2, result["ranks"]
    return hosts.sent_bytes() - before, sum(entry["sent_bytes"] for entry in result["collectives"])


def main():
    try:
        with Hosts() as hosts:
            for rung in RUNGS:
                with temporary_folder() as few_folder, temporary_folder() as many_folder:
                    few, _ = crossed(hosts, few_folder, rung, 4)
                    many, counted = crossed(hosts, many_folder, rung, 24)
                # Start, plan and rendezvous cost the same in both runs. Each of the two ranks sends.
                measured = (many - few) / 20
                ratio = measured / (2 * counted)
                print(f"{rung}: {2 * counted:.0f} bytes a step counted, {measured:.0f} on the link: {ratio:.3f}")
                assert 0.99 < ratio < 1.05, ratio
    except NotAllowed as error:
        print(f"no network namespaces here: {error}")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
