"""setup/summary.py: the summary of a run of ctest."""

import os
import subprocess
import sys
import tempfile
import unittest

SUMMARY = os.path.join(os.environ["OPTRUSH_SOURCE_DIR"], "setup", "summary.py")


def case(name, inner="", status="run", seconds=1):
    return f'<testcase name="{name}" status="{status}" time="{seconds}">{inner}</testcase>'


def printed(output):
    return f"<system-out>{output}</system-out>"


def skipped(output):
    return f'<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>{output}</system-out>'


def summary(*cases):
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write("<testsuite>" + "".join(cases) + "</testsuite>")
        file.flush()
        done = subprocess.run([sys.executable, SUMMARY, file.name, "3 s"], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip().splitlines()


class SummaryTest(unittest.TestCase):
    def test_groups_and_last_line(self):
        code, lines = summary(case("files.Files.Writes"), case("files.Files.Reads"), case("launcher.help"))
        self.assertEqual(code, 0)
        self.assertEqual(lines[0], "ran: files 2, launcher 1")
        self.assertEqual(lines[-1], "tests passed: 3 passed, 0 failed, 0 skipped, 3 s with set-up")

    def test_reasons_of_skips_are_counted(self):
        code, lines = summary(
            case("a.A.One"),
            case("gpu.G.One", skipped("[ RUN ] One\nx_test.cpp:9: Skipped\nno CUDA device\n[  SKIPPED ] One")),
            case("gpu.G.Two", skipped("x_test.cpp:12: Skipped\nno CUDA device\n")),
            case("lint.lua", skipped("luacheck is not installed\n")),
        )
        self.assertEqual(code, 0)
        self.assertIn("skipped 2: no CUDA device", lines)
        self.assertIn("skipped 1: luacheck is not installed", lines)

    def test_failures_are_named(self):
        code, lines = summary(case("a.A.One"), case("b.B.Two", '<failure message=""/>', "fail"))
        self.assertEqual(code, 1)
        self.assertIn("FAILED: b.B.Two", lines)
        self.assertTrue(lines[-1].startswith("tests FAILED: 1 passed, 1 failed"))

    def test_cases_of_one_process_are_distinguished(self):
        output = (
            "[ RUN      ] A.One\n[       OK ] A.One (3 ms)\n"
            "[ RUN      ] A.Two\nx_test.cpp:9: Skipped\nno CUDA device\n\n[  SKIPPED ] A.Two (0 ms)\n"
            "[ RUN      ] S/B.Three/0\nno\n[  FAILED  ] S/B.Three/0, where GetParam() = 7 (4 ms)\n"
            "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] S/B.Three/0, where GetParam() = 7\n"
        )
        code, lines = summary(case("a", '<failure message=""/>' + printed(output), "fail"))
        self.assertEqual(code, 1)
        self.assertEqual(lines[0], "ran: a 1")
        self.assertEqual([line for line in lines if line.startswith("FAILED")], ["FAILED: a.S/B.Three/0"])
        self.assertIn("skipped 1: no CUDA device", lines)

    def test_a_case_in_which_the_process_died_is_a_failure(self):
        output = "[ RUN      ] A.One\n[       OK ] A.One (3 ms)\n[ RUN      ] A.Two\n"
        code, lines = summary(case("a", '<failure message=""/>' + printed(output), "fail"))
        self.assertEqual(code, 1)
        self.assertIn("FAILED: a", lines)
        self.assertTrue(lines[-1].startswith("tests FAILED: 1 passed, 1 failed"))

    def test_the_ten_slowest_are_listed(self):
        _, lines = summary(*(case(f"t{i}", seconds=i) for i in range(12)))
        self.assertEqual(lines[1], "slowest: " + ", ".join(f"t{i} {i} s" for i in range(11, 1, -1)))

    def test_a_run_without_tests_is_a_failure(self):
        self.assertEqual(summary(case("gpu.G.One", skipped("no CUDA device")))[0], 1)


if __name__ == "__main__":
    unittest.main()
