"""The results in a log of mutants: tables by folder and by kind of change, and the mutants that survived."""
from collections import Counter

OUTCOMES = ("killed", "survived", "not reached", "unfinished")


def tell(log, ids):
    mutants = {id: mutant for id, mutant in log.mutants.items() if id in ids}
    seeded = {id: mutant for id, mutant in mutants.items() if mutant["site"]["kind"] != "by hand"}
    parts = [f"commit {log.head['commit'][:10]}, seed {log.head['seed']}",
             _table(log, seeded, "folder", lambda mutant: "/".join(mutant["file"].split("/")[:2])),
             _table(log, seeded, "change", lambda mutant: mutant["site"]["kind"])]
    for id, mutant in sorted(mutants.items(), key=lambda item: (item[1]["file"], item[1]["site"]["line"])):
        outcome, site = _outcome(log, id), mutant["site"]
        if outcome not in ("killed", "to do") or site["kind"] == "by hand":
            by = log.verdicts.get(id, {}).get("by", "")
            parts.append(f"{id} {mutant['file']}:{site['line']} ({site['kind']}) {outcome} {by}\n"
                         f"    - {_flat(site['original'])}\n    + {site['mutated'] or '(left out)'}")
    return "\n\n".join(parts)


def _outcome(log, id):
    return log.verdicts.get(id, {"outcome": "to do"})["outcome"]


def _table(log, mutants, title, group_of):
    rows = {}
    for id, mutant in mutants.items():
        for group in (group_of(mutant), "all"):
            rows.setdefault(group, Counter())[_outcome(log, id)] += 1
    outcomes = [*OUTCOMES, *({outcome for row in rows.values() for outcome in row} - set(OUTCOMES))]
    lines = [f"| {title} | mutants | {' | '.join(outcomes)} |", "|---|" + "--:|" * (len(outcomes) + 1)]
    for group in sorted(rows, key=lambda group: (group == "all", group)):
        row = rows[group]
        lines.append(f"| {group} | {row.total()} | {' | '.join(str(row[outcome]) for outcome in outcomes)} |")
    return "\n".join(lines)


def _flat(text):
    return " ".join(text.split())
