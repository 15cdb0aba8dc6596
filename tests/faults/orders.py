"""The chains of a campaign."""

import itertools

import chains
import fault_files
import fault_machine
import fault_plugins
import fault_signals
import readers

OVER_EXPERIMENTS = (*fault_signals.KINDS, *fault_machine.KINDS)
READERS = {"report": 40, "resume": 5, "forward": 20, "worker": 10, "plugins": 8, "script": 10}


def endless(campaign):
    """Chains in an order set by the seed, until enough faults have struck."""
    for number in itertools.count():
        random = campaign.random(f"order {number}")
        what = random.choices(("experiment", "plugin", "files"), (12, 6, 82))[0]
        if what == "experiment":
            name = random.choice(chains.RUNNING)
            kinds = random.choices(OVER_EXPERIMENTS, k=chains.LENGTH)
            yield lambda n, name=name, kinds=kinds: chains.running(campaign, n, name, kinds)
        elif what == "plugin":
            kind = random.choice(fault_plugins.KINDS)
            yield lambda n, kind=kind: chains.plugin(campaign, n, kind)
        else:
            reader = random.choices(tuple(READERS), tuple(READERS.values()))[0]
            damages = random.choices(fault_files.DAMAGES, k=chains.LENGTH)
            yield lambda n, reader=reader, damages=damages: readers.chain(campaign, n, reader, damages)


def short(campaign):
    """Each signal and each fault of the machine once; of plugins and damaged files, a few chosen by the seed."""
    random = campaign.random("short")
    kinds = list(OVER_EXPERIMENTS)
    random.shuffle(kinds)
    for i in range(0, len(kinds), chains.LENGTH):
        name = chains.RUNNING[i // chains.LENGTH % len(chains.RUNNING)]
        yield lambda n, name=name, piece=kinds[i : i + chains.LENGTH]: chains.running(campaign, n, name, piece)
    for kind in random.sample(fault_plugins.KINDS, 3):
        yield lambda n, kind=kind: chains.plugin(campaign, n, kind)
    for reader in fault_files.READ:
        damages = random.sample(fault_files.DAMAGES, 4)
        yield lambda n, reader=reader, damages=damages: readers.chain(campaign, n, reader, damages)
