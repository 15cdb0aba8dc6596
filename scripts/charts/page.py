"""The interactive charts of a page."""
import json

import theme
from parts import NAME_WIDTH

# A narrow screen gets a narrower chart with shorter names, because the text of a scaled chart is unreadable.
_FIT = f"""
const narrow = document.body.clientWidth < 800;
const room = Math.max(160, document.body.clientWidth - 230);
function fit(part) {{
  if (Array.isArray(part)) part.forEach(fit);
  else if (part && typeof part === 'object') {{
    if (narrow && part.hconcat) {{ part.vconcat = part.hconcat; delete part.hconcat; }}
    if (narrow && part.width > room) part.width = room;
    if (narrow && part.labels === false) part.labels = true;
    if (narrow && part.labelLimit === {NAME_WIDTH}) part.labelLimit = 110;
    if (narrow && part.columns === 5) part.columns = room < 400 ? 1 : 2;
    if (narrow && part.orient === 'bottom' && part.labelLimit) part.columns = 1;
    if (narrow && part.subtitle) {{ part.subtitle = ''; part.text = part.text.split(': '); }}
    for (const [name, inner] of Object.entries(part)) if (name !== 'data') fit(inner);
  }}
}}"""


def interactive(specs, library):
    """The scripts that a page needs besides the places of its charts. No text of a chart can end the script element."""
    charts = json.dumps(specs, separators=(",", ":")).replace("<", "\\u003c")
    return (f"<style>{theme.CSS}</style>\n<script>{library}</script>\n<script>\nconst charts = {charts};{_FIT}\n"
            "for (const [name, spec] of Object.entries(charts)) {\n"
            "  fit(spec);\n"
            "  vegaEmbed('#' + name, spec, {renderer: 'svg', actions: {export: true, source: false, compiled: false, "
            "editor: false}});\n}\n</script>\n")
