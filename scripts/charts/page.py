"""The interactive charts of a page."""
import json

import theme


def interactive(specs, library):
    """What a page needs beside the places of its charts. No text of a chart ends the script element."""
    charts = json.dumps(specs, separators=(",", ":")).replace("<", "\\u003c")
    return (f"<style>{theme.CSS}</style>\n<script>{library}</script>\n<script>\nconst charts = {charts};\n"
            "for (const [name, spec] of Object.entries(charts))\n"
            "  vegaEmbed('#' + name, spec, {renderer: 'svg', actions: {export: true, source: false, compiled: false, "
            "editor: false}});\n</script>\n")
