"""Summarizes a run of ctest: python summary.py TESTS.xml TIME. Exits with 1 if a test failed."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter

SLOWEST = 10
# A line of GoogleTest for a case that has ended; the output of the case is above it.
CASE = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] ([\w/]+\.[\w/]+)\S*(?:, .*)? \(\d+ ms\)$", re.MULTILINE)


def skip_reason(output):
    """The message of GTEST_SKIP() or the last line of a command that ended with 77."""
    output = output.strip()
    told = re.search(r": Skipped\n(.+)", output)
    if told:
        return told.group(1).strip()
    return output.splitlines()[-1].strip() if output else "no reason given"


def ends_of(test):
    """(name, "OK", "FAILED" or a reason to skip) of the test, or of each case that its process ran."""
    name, output = test.get("name"), test.findtext("system-out") or ""
    failed = test.find("failure") is not None or test.get("status") == "fail"
    start, found = 0, []
    for case in CASE.finditer(output):
        end = skip_reason(output[start:case.start()]) if case[1] == "SKIPPED" else case[1]
        found.append((name if name.endswith(case[2]) else f"{name}.{case[2]}", end))
        start = case.end()
    if test.get("status") == "disabled":
        return [(name, "disabled")]
    if test.find("skipped") is not None:
        return [(name, skip_reason(output))]
    if failed and all(end != "FAILED" for _, end in found):
        return [*found, (name, "FAILED")]  # it died in a case
    return found or [(name, "OK")]


def main(path, time):
    groups, skips, failed, seconds = Counter(), Counter(), [], []
    for test in ElementTree.parse(path).getroot().iter("testcase"):
        seconds.append((float(test.get("time") or 0), test.get("name")))
        for name, end in ends_of(test):
            if end == "OK":
                groups[name.split(".")[0]] += 1
            elif end == "FAILED":
                failed.append(name)
            else:
                skips[end] += 1
    passed = sum(groups.values())
    print("\nran: " + ", ".join(f"{group} {count}" for group, count in sorted(groups.items())))
    print("slowest: " + ", ".join(f"{name} {second:.0f} s" for second, name in sorted(seconds, reverse=True)[:SLOWEST]))
    for reason, count in skips.most_common():
        print(f"skipped {count}: {reason}")
    for name in failed:
        print(f"FAILED: {name}")
    verdict = "tests FAILED" if failed else "tests passed"
    print(f"{verdict}: {passed} passed, {len(failed)} failed, {sum(skips.values())} skipped, {time} with set-up")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
