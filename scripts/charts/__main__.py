"""Draws the charts of a report. Its job is a JSON file, which core/report/writers/render.cpp writes before it closes
the standard input of this process:

{"experiment": "quickstart", "rungs": ["base"], "folder": "where the charts go", "png": false,
 "charts": [{"name": "speed", "kind": "speed", "data": what the module of that kind reads,
             "note": "what the picture leaves out"}],
 "page": {"html": "...", "mark": "text that the interactive charts take the place of", "file": "report.html"},
 "cache": "folder that keeps the charts' library"}
"""

import json
import os
import select
import sys

import grid
import loss
import loss_over_time
import memory
import page
import phases
import roofline
import scaling
import speed
import theme
import throughput

try:
    import vl_convert
except ImportError:
    sys.exit("vl-convert-python is not installed")

KINDS = {module.__name__: module.chart
         for module in (speed, memory, loss, loss_over_time, throughput, phases, scaling, grid, roofline)}


def write(path, data):
    """Writes a temporary file and renames it, like every result."""
    unfinished = f"{path}.{os.getpid()}.tmp"
    with open(unfinished, "wb") as out:
        out.write(data)
    os.replace(unfinished, path)


def library(cache):
    """The charts' library, which takes seconds to make: one file for each version of vl-convert."""
    path = os.path.join(cache, f"vega-{vl_convert.__version__}.js")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        made = vl_convert.javascript_bundle().replace("</script", "<\\/script")
    try:
        os.makedirs(cache, exist_ok=True)
        write(path, made.encode())
    except OSError as error:  # the next call makes it again
        print(error, file=sys.stderr)
    return made


def draw(name, spec, job):
    svg = vl_convert.vegalite_to_svg(spec)
    path = os.path.join(job["folder"], name)
    if job["png"]:
        write(path + ".png", vl_convert.svg_to_png(svg, scale=2))
    start = svg.index(">") + 1
    write(path + ".svg", (svg[:start] + "<style>" + theme.CSS + "</style>" + svg[start:]).encode())


def wait_for_job():
    """Waits until the standard input ends. Draws a chart meanwhile, because the first one starts a JavaScript
    engine."""
    if not select.select([sys.stdin], [], [], 0)[0]:
        vl_convert.vegalite_to_svg({"mark": "point", "data": {"values": []}})
    sys.stdin.buffer.read()


def main():
    wait_for_job()
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    specs = {chart["name"]: KINDS[chart["kind"]]({**job, "note": chart["note"]}, chart["data"])
             for chart in job["charts"]}
    for name, spec in specs.items():
        draw(name, spec, job)
    html = job["page"]["html"].replace(job["page"]["mark"], page.interactive(specs, library(job["cache"])), 1)
    write(job["page"]["file"], html.encode())


if __name__ == "__main__":
    main()
