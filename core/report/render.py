"""Draws the charts of a report. Its job is a JSON file:

{"charts": [{"spec": {}, "svg": "speed.svg", "png": null}], "css": "...",
 "page": {"html": "...", "mark": "text that the charts' library takes the place of", "file": "report.html"},
 "cache": "folder that keeps the charts' library"}
"""
import json
import os
import sys

try:
    import vl_convert
except ImportError:
    sys.exit("vl-convert-python is not installed")


def write(path, data):
    """By a temporary file and a rename, as every result."""
    unfinished = f"{path}.{os.getpid()}.tmp"
    with open(unfinished, "wb") as out:
        out.write(data)
    os.replace(unfinished, path)


def library(cache):
    """The charts' library, whose making takes seconds: one file for each version of vl-convert."""
    path = os.path.join(cache, f"vega-{vl_convert.__version__}.js")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        made = vl_convert.javascript_bundle().replace("</script", "<\\/script")
    try:
        os.makedirs(cache, exist_ok=True)
        write(path, made.encode())
    except OSError as error:  # it is made again the next time
        print(error, file=sys.stderr)
    return made


with open(sys.argv[1], encoding="utf-8") as file:
    job = json.load(file)
for chart in job["charts"]:
    svg = vl_convert.vegalite_to_svg(chart["spec"])
    if chart["png"]:
        write(chart["png"], vl_convert.svg_to_png(svg, scale=2))
    start = svg.index(">") + 1
    write(chart["svg"], (svg[:start] + "<style>" + job["css"] + "</style>" + svg[start:]).encode())
page = job["page"]
write(page["file"], page["html"].replace(page["mark"], library(job["cache"]), 1).encode())
