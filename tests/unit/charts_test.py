"""The charts that scripts/charts draws from the data of a report."""
import math
import os
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(os.environ["OPTRUSH_SOURCE_DIR"]) / "scripts/charts"))
import grid  # noqa: E402
import loss  # noqa: E402
import loss_over_time  # noqa: E402
import memory  # noqa: E402
import page  # noqa: E402
import parts  # noqa: E402
import phases  # noqa: E402
import roofline  # noqa: E402
import scaling  # noqa: E402
import speed  # noqa: E402
import theme  # noqa: E402
import ticks  # noqa: E402

MIB = 1 << 20
REPORT = {"experiment": "synthetic", "rungs": ["base", "one"]}


class Ticks(unittest.TestCase):
    def test_logarithmic_ticks_are_1_2_and_5(self):
        self.assertEqual(ticks.logarithmic(3, 160), [2, 5, 10, 20, 50, 100, 200])
        self.assertEqual(ticks.logarithmic(1, 100), [1, 2, 5, 10, 20, 50, 100], "none beyond a limit that is a tick")
        self.assertEqual(ticks.logarithmic(7, 7), [5, 10])

    def test_ticks_of_many_decades_are_powers_of_ten(self):
        marks = ticks.logarithmic(3e-7, 40)
        self.assertLessEqual(len(marks), 9)
        self.assertLessEqual(marks[0], 3e-7)
        self.assertGreaterEqual(marks[-1], 40)
        for tick in marks:
            self.assertAlmostEqual(math.log10(tick), round(math.log10(tick)), delta=1e-9)
        self.assertLessEqual(len(ticks.logarithmic(1e-20, 1e20)), 9)

    def test_ticks_of_bytes_are_round_in_mebibytes(self):
        self.assertEqual(ticks.linear_bytes(5 * MIB), [i * MIB for i in range(6)])
        self.assertEqual(ticks.linear_bytes(700 * MIB), [i * 128 * MIB for i in range(7)])
        self.assertEqual(ticks.logarithmic_bytes(5 * MIB, 40 * MIB), [i * MIB for i in (4, 8, 16, 32, 64)])
        wide = ticks.logarithmic_bytes(1, 1e12)
        self.assertLessEqual(len(wide), 9)
        self.assertLessEqual(wide[0], 1)
        self.assertGreaterEqual(wide[-1], 1e12)

    def test_steps_are_marked_by_round_numbers(self):
        def marks(last):
            return parts.step_axis([{"step": 0}, {"step": last}])["axis"]["values"]
        self.assertEqual(marks(4), [0, 1, 2, 3, 4])
        for last, second in ((20, 2), (40, 5), (100, 10), (200, 20)):
            self.assertEqual(marks(last)[1], second)


class Styles(unittest.TestCase):
    def test_many_lines_differ_by_colour_and_dash(self):
        names = ["name"] * (3 * len(theme.PALETTE))
        colours, dashes = (by("line", names)["scale"]["range"] for by in (parts.colour_by, parts.dash_by))
        styles = {(colour, tuple(dash)) for colour, dash in zip(colours, dashes, strict=True)}
        self.assertEqual(len(styles), len(names))

    def test_the_style_sheet_replaces_every_colour_except_those_of_lines(self):
        for colour in (theme.TEXT, theme.MUTED, theme.GRID, theme.BAD):
            self.assertIn(f'[fill="{colour}"]', theme.CSS)

    def test_names_cannot_end_the_script_of_a_page(self):
        html = page.interactive({"speed": {"title": "</script><b>"}}, "library();")
        self.assertEqual(html.count("</script"), 2)
        self.assertIn("\\u003c/script>", html)


class Speed(unittest.TestCase):
    ROW = {"rung": "base", "status": "ok", "label": "1,000", "speed": 1000, "low": 990, "high": 1010,
           "same_problem": True, "previous": "—", "base": "—"}

    def legend(self, *rows):
        return speed.chart(REPORT, {"rows": rows})["hconcat"][0]["layer"][0]["encoding"]["color"]["legend"]

    def test_rungs_with_other_problems_have_a_legend(self):
        self.assertIsNone(self.legend(self.ROW))
        self.assertIsNone(self.legend(self.ROW, {"rung": "one", "status": "oom", "label": "out of memory"}))
        self.assertEqual(self.legend(self.ROW, {**self.ROW, "rung": "one", "same_problem": False})["orient"], "bottom")

    def test_a_failed_rung_has_a_label_and_no_bar(self):
        spec = speed.chart(REPORT, {"rows": [{"rung": "one", "status": "oom", "label": "out of memory"}]})
        self.assertEqual(spec["hconcat"][0]["data"]["values"],
                         [{"rung": "one", "status": "oom", "label": "out of memory", "at": 0}])
        self.assertEqual(len(spec["hconcat"]), 1, "a failed rung has no memory")

    def test_memory_is_beside_the_speed(self):
        held = {**self.ROW, "memory": {"bytes": 3 * MIB, "text": "3.00 MiB"}}
        spec = speed.chart(REPORT, {"rows": [held, {**self.ROW, "rung": "one"}]})
        memory_panel = spec["hconcat"][1]
        self.assertEqual(memory_panel["data"]["values"], [{"rung": "base", "size": 3, "text": "3.00 MiB"}])
        y = memory_panel["layer"][0]["encoding"]["y"]
        self.assertEqual(y["scale"]["domain"], ["base", "one"], "both panels have the same rows")


class Memory(unittest.TestCase):
    def test_bars_have_the_unit_of_the_largest(self):
        total = {"bytes": 1022 * MIB, "text": "1,022 MiB"}
        parts_of_row = {"parameters": {"bytes": 3 * MIB, "text": "3 MiB"}, "gradients": None, "total": total}
        row = {"rung": "base", "label": "4 MiB", "allocated": {"bytes": 4 * MIB, "text": "4 MiB"}, "predicted": None,
               "parts": parts_of_row}
        spec = memory.chart(REPORT, {"rows": [row]})
        self.assertEqual([(value["part"], value["size"]) for value in spec["data"]["values"]],
                         [("measured peak", 4), ("parameters", 3)])
        self.assertEqual(spec["layer"][0]["encoding"]["x"]["title"], "peak memory in MiB")
        self.assertEqual(len(spec["layer"]), 2, "there is no prediction")
        row["predicted"] = {"bytes": 5 * MIB, "text": "5 MiB"}
        spec = memory.chart(REPORT, {"rows": [row]})
        self.assertEqual(spec["layer"][2]["data"]["values"][0]["size"], 5)
        self.assertEqual(spec["layer"][1]["data"]["values"][0]["size"], 5, "the label is beside both")


class Losses(unittest.TestCase):
    LINE = {"name": "base and 1 other", "losses": [[0, 5.0], [1, 4.0]], "validation": []}

    def test_distances_have_a_second_panel(self):
        data = {"lines": [self.LINE], "distances": [], "round": "first round", "target": None}
        self.assertEqual(len(loss.chart(REPORT, data)["vconcat"]), 1)
        data["distances"] = [{"rung": "one", "to": "base", "apart": [[1, 1e-5]], "allowed": 1e-4, "last": 1}]
        spec = loss.chart(REPORT, data)
        self.assertEqual(spec["vconcat"][1]["facet"]["row"]["sort"], ["one"])
        axis = spec["vconcat"][1]["spec"]["layer"][1]["encoding"]["y"]["axis"]["values"]
        self.assertTrue(axis[0] <= 1e-5 and 1e-4 <= axis[2])
        self.assertEqual(spec["data"]["values"][-1], {"rung": "one", "step": 0, "last": 1, "allowed": 1e-4})

    def test_validation_and_a_target_are_layers(self):
        data = {"lines": [{**self.LINE, "validation": [[0, 5.1]]}], "distances": [], "round": "first round",
                "target": {"loss": 4.84, "text": "4.84"}}
        layers = loss.chart(REPORT, data)["vconcat"][0]["layer"]
        self.assertEqual([layer.get("mark", {}).get("type") for layer in layers], ["line", "point", None])
        self.assertEqual(layers[2]["layer"][1]["mark"]["text"], "target 4.84")

    def test_over_time(self):
        data = {"lines": [{"name": "base", "losses": [{"seconds": 1.5, "steps": 3, "loss": 4.5}]}], "what": "validated",
                "validated": True, "round": "longest round", "target": None}
        spec = loss_over_time.chart(REPORT, data)
        self.assertEqual(spec["layer"][0]["encoding"]["x"]["title"], "seconds of training")
        self.assertIn("longest round", spec["title"]["subtitle"])
        self.assertEqual(len(spec["layer"]), 1)
        self.assertEqual(len(loss_over_time.chart(REPORT, {**data, "target": {"loss": 4, "text": "4"}})["layer"]), 2)


class Grid(unittest.TestCase):
    def panels(self, xs, *columns):
        points = [{"line": "plain", "x": x, "y": y, "column": column["name"], "text": str(y)}
                  for column, ys in columns for x, y in zip(xs, ys, strict=True)]
        return grid.chart(REPORT, {"x": "train.lr", "rounds": "medians of all rounds",
                                   "columns": [column for column, _ in columns], "points": points})["vconcat"]

    def test_bytes_are_marked_by_powers_of_two(self):
        column = {"name": "peak_memory", "title": "peak memory", "unit": "bytes"}
        for ys in ([3 * MIB, 5 * MIB], [3 * MIB, 500 * MIB]):
            marks = self.panels([1024, 16384], (column, ys))[0]["encoding"]["y"]["axis"]["values"]
            self.assertTrue(marks[1] and math.log2(marks[1]).is_integer(), marks)

    def test_curves_over_fractions(self):
        """Settings below 1 are marked as given, an axis of losses may start above zero, and panels share the x axis."""
        xs = [0.0005, 0.001, 0.004]
        panels = self.panels(xs, ({"name": "step_time", "title": "step", "unit": "seconds"}, [1, 1.1, 1.2]),
                             ({"name": "loss", "title": "final loss", "unit": "loss"}, [4, 4.1, 4.2]))
        for panel in panels:
            x = panel["encoding"]["x"]
            self.assertEqual(x["axis"]["format"], "~g")
            self.assertEqual(x["axis"]["values"], xs)
            self.assertEqual(x["scale"]["domain"], [0.0005, 0.004])
        self.assertEqual([panel["encoding"]["y"]["scale"]["zero"] for panel in panels], [True, False])

    def test_powers_of_two_are_whole_and_logarithmic(self):
        column = {"name": "mfu", "title": "MFU", "unit": "share"}
        x = self.panels([1024, 2048, 8192], (column, [.1, .2, .3]))[0]["encoding"]["x"]
        self.assertEqual((x["axis"]["format"], x["scale"]["base"]), (",d", 2))


class Phases(unittest.TestCase):
    def test_bars_have_the_phases_in_the_order_of_a_step(self):
        data = {"rungs": [{"rung": "base", "phases": [{"name": "forward", "seconds": 0.2, "text": "200 ms"},
                                                      {"name": "backward", "seconds": 0.4, "text": "400 ms"}]},
                          {"rung": "one", "phases": [{"name": "backward", "seconds": 0.3, "text": "300 ms"}]}]}
        spec = phases.chart(REPORT, data)
        bars = [(bar["rung"], bar["phase"], bar["order"], bar["time"]) for bar in spec["data"]["values"]]
        self.assertEqual(bars,
                         [("base", "forward", 0, 200), ("base", "backward", 1, 400), ("one", "backward", 1, 300)])
        self.assertEqual(spec["layer"][0]["encoding"]["x"]["title"], "ms of a step")
        data["rungs"][0]["phases"][0]["seconds"] = 2
        self.assertEqual(phases.chart(REPORT, data)["layer"][0]["encoding"]["x"]["title"], "s of a step")


class Others(unittest.TestCase):
    def test_a_series_of_ranks_has_its_ideal(self):
        points = [{"ranks": ranks, "growth": ranks, "speedup": speedup, "rung": str(ranks), "text": "",
                   "efficiency": ""}
                  for ranks, speedup in ((1, 1), (2, 1.9), (4, 3.5))]
        spec = scaling.chart(REPORT, {"series": [{"title": "data parallel", "points": points}]})
        self.assertEqual([value["speedup"] for value in spec["layer"][0]["data"]["values"]], [1, 2, 4])
        self.assertEqual(spec["layer"][2]["encoding"]["y"]["axis"]["values"], [1, 2, 4])
        self.assertEqual(spec["layer"][2]["encoding"]["x"]["axis"]["values"], [1, 2, 4])

    def test_a_roof_bends_at_its_ridge(self):
        data = {"points": [{"rung": "base", "phase": "forward", "dtype": "fp32", "x": 2, "y": 1e10, "share": "50 %"}],
                "roofs": [{"dtype": "fp32", "flops": 2e11, "bandwidth": 1e10}]}
        spec = roofline.chart(REPORT, data)
        self.assertEqual([panel["title"]["text"] for panel in spec["vconcat"]], ["forward"])
        roof = spec["vconcat"][0]["layer"][0]["data"]["values"]
        self.assertEqual([(value["x"], value["y"]) for value in roof], [(2, 2e10), (20, 2e11), (20, 2e11)])


if __name__ == "__main__":
    unittest.main()
