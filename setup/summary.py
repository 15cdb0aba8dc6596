"""What a run of ctest did: python summary.py TESTS.xml TIME. Exits 1 where a test failed."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter


def skip_reason(case):
    """The message of GTEST_SKIP() or the last line of a command that ended with 77."""
    output = (case.findtext("system-out") or "").strip()
    told = re.search(r": Skipped\n(.+)", output)
    if told:
        return told.group(1).strip()
    return output.splitlines()[-1].strip() if output else "no reason given"


def main(path, time):
    groups, skips, failed = Counter(), Counter(), []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name")
        if case.get("status") == "disabled":
            skips["disabled"] += 1
        elif case.find("skipped") is not None:
            skips[skip_reason(case)] += 1
        elif case.find("failure") is not None or case.get("status") == "fail":
            failed.append(name)
        else:
            groups[name.split(".")[0]] += 1
    passed = sum(groups.values())
    print("\nran: " + ", ".join(f"{group} {count}" for group, count in sorted(groups.items())))
    for reason, count in skips.most_common():
        print(f"skipped {count}: {reason}")
    for name in failed:
        print(f"FAILED: {name}")
    verdict = "tests FAILED" if failed else "tests passed"
    print(f"{verdict}: {passed} passed, {len(failed)} failed, {sum(skips.values())} skipped, {time} with set-up")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
