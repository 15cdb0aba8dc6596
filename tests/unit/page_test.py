"""report.html and the page of a comparison in a real browser: no sideways scroll at three widths, sorting, folding,
values under the mouse, dark mode, print, no request to a network, and no error in the console."""
import base64
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"])
OPTRUSH = pathlib.Path(os.environ["OPTRUSH_BUILD_DIR"]) / "bin/optrush"
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tests/support"))
import browser  # noqa: E402

REPORTS = [SOURCE / "reports/quickstart/epyc-2-cores", SOURCE / "reports/flagship/h200"]
WIDTHS = (390, 768, 1400)

OPEN_ALL = "document.querySelectorAll('details').forEach(part => part.open = true)"
SIDEWAYS = "document.documentElement.scrollWidth - innerWidth"
DRAWN = """new Promise(done => {
  const check = () => [...document.querySelectorAll('.vega-embed')].every(chart => chart.querySelector('svg'))
      ? done(document.querySelectorAll('.vega-embed svg').length) : setTimeout(check, 20);
  check();
})"""
COLUMN = """[...document.querySelector('table').tBodies[0].rows].map(
    row => parseFloat(row.cells[1].textContent.replaceAll(',', '')))"""
SPEED_BAR = """(() => {
  const bar = document.querySelector('#speed .mark-rect path'), box = bar.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
})()"""
HOVERED = """new Promise(done => {
  const check = () => {
    const hint = document.querySelector('#vg-tooltip-element.visible');
    hint ? done(hint.textContent) : setTimeout(check, 20);
  };
  check();
})"""
# The widest empty space beside a table that scrolls.
BESIDE_TABLES = """Math.max(...[...document.querySelectorAll('.wide:has(table)')].map(
    part => part.scrollWidth > part.clientWidth ? innerWidth - part.clientWidth : 0))"""
FOLDED = "document.querySelectorAll('body>details:not([open])').length"
# The contrast of two colours (WCAG 2), of the text of the body on its background.
CONTRAST = """(() => {
  const part = x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  const light = colour => {
    const [r, g, b] = colour.match(/\\d+/g).map(x => part(x / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const style = getComputedStyle(document.body), two = [light(style.color), light(style.backgroundColor)];
  return [light(style.backgroundColor), (Math.max(...two) + 0.05) / (Math.min(...two) + 0.05)];
})()"""


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(cls.folder.name)
        made = []
        for report in REPORTS:
            target = root / report.parent.name
            target.mkdir()
            for file in [*report.glob("*.json"), *report.glob("*.jsonl")]:
                shutil.copy(file, target)
            subprocess.run([OPTRUSH, "report", target], check=True, capture_output=True)
            made.append(target)
        cls.reports = [target / "report.html" for target in made]
        cls.comparison = root / "comparison.html"
        shutil.copytree(made[0], root / "again")
        page = subprocess.run([OPTRUSH, "compare", made[0], root / "again", "--html"], check=True, capture_output=True)
        cls.comparison.write_bytes(page.stdout)
        cls.page = browser.Page(root / "profile")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.addClassCleanup(cls.page.__exit__)

    def test_no_width_scrolls_sideways(self):
        for file in [*self.reports, self.comparison]:
            for width in WIDTHS:
                with self.subTest(file=file.name, of=file.parent.name, width=width):
                    self.page.open(file, width)
                    self.page.value(DRAWN)
                    self.assertLessEqual(self.page.value(SIDEWAYS), 0, "folded")
                    self.page.value(OPEN_ALL)
                    self.assertLessEqual(self.page.value(SIDEWAYS), 0, "unfolded")

    def test_a_wide_table_takes_the_width_of_the_screen(self):
        self.page.open(self.reports[1], 1400)
        self.page.value(OPEN_ALL)
        self.assertLessEqual(self.page.value(BESIDE_TABLES), 60, "a table scrolls beside empty space")

    def test_a_click_on_a_column_sorts(self):
        self.page.open(self.reports[0], 1400)
        before = self.page.value(COLUMN)
        click = "document.querySelector('th.number').click()"
        self.page.value(click)
        self.assertEqual(self.page.value(COLUMN), sorted(before, reverse=True))
        self.page.value(click)
        self.assertEqual(self.page.value(COLUMN), sorted(before))
        self.assertNotEqual(before, sorted(before), "the example is already sorted")

    def test_details_are_folded_and_open_by_a_click(self):
        self.page.open(self.reports[0], 1400)
        before = self.page.value(FOLDED)
        self.assertGreater(before, 5)
        self.page.value("document.querySelector('body>details:not([open])>summary').click()")
        self.assertEqual(self.page.value(FOLDED), before - 1)

    def test_the_mouse_shows_the_values_of_a_bar(self):
        self.page.open(self.reports[0], 1400)
        self.assertGreater(self.page.value(DRAWN), 3)
        x, y = self.page.value(SPEED_BAR)
        self.page.move_to(x, y)
        text = self.page.value(HOVERED)
        for part in ("rung", "base", "tokens/s"):
            self.assertIn(part, text)

    def test_dark_mode_is_dark_and_readable(self):
        for dark in (False, True):
            self.page.open(self.reports[0], 1400, dark=dark)
            background, contrast = self.page.value(CONTRAST)
            self.assertEqual(background < 0.1, dark)
            self.assertGreater(contrast, 7)
            self.page.value(DRAWN)
            chart = self.page.value("getComputedStyle(document.querySelector('svg.marks')).backgroundColor")
            self.assertEqual(chart, "rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")

    def test_print_shows_what_is_folded(self):
        self.page.open(self.reports[0], 1400)
        self.page.value("addEventListener('beforeprint', () => { window.folded = %s; })" % FOLDED)
        printed = base64.b64decode(self.page.call("Page.printToPDF")["data"])
        self.assertGreater(printed.count(b"/Type /Page\n"), 2)
        self.assertEqual(self.page.value("window.folded"), 0, "in print")
        self.assertGreater(self.page.value(FOLDED), 5, "after it")

    @classmethod
    def tearDownClass(cls):
        errors = [each for each in cls.page.events if each[0] == "Runtime.exceptionThrown"
                  or (each[0] == "Log.entryAdded" and each[1]["entry"]["level"] == "error")
                  or (each[0] == "Runtime.consoleAPICalled" and each[1]["type"] == "error")]
        assert not errors, errors
        asked = {each[1]["request"]["url"] for each in cls.page.events if each[0] == "Network.requestWillBeSent"}
        assert all(url.startswith(("file://", "data:", "blob:")) for url in asked), asked


if __name__ == "__main__":
    if browser.program() is None:
        print("no browser is installed: apt-get install chromium")
        sys.exit(77)
    unittest.main()
