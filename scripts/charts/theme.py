"""Colours and type of the charts.

A chart is drawn in the light colours. The style sheet exchanges them if the reader prefers dark, in an SVG file and in
the page. The palette is readable on both. People with a colour vision deficiency can distinguish its colours (six of
Okabe and Ito's, a little lighter or darker).
"""

TEXT = "#1f2328"
MUTED = "#59636e"
GRID = "#d8dee4"
BAD = "#c62828"
PALETTE = ["#2a78c2", "#e08a00", "#00916a", "#cf6fa3", "#58b5ea", "#c94f00"]
BACKGROUND = "#ffffff"
DARK_BACKGROUND = "#0d1117"
DARK = {TEXT: "#e6edf3", MUTED: "#9198a1", GRID: "#30363d", BAD: "#ff7b72"}

_SMALL = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}

CONFIG = {
    "background": None,
    "font": "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif",
    "padding": 12,
    "view": {"stroke": None},
    "title": {
        "color": TEXT,
        "subtitleColor": MUTED,
        "anchor": "start",
        "frame": "bounds",
        "fontSize": 15,
        "subtitleFontSize": 12,
        "subtitlePadding": 4,
        "offset": 14,
    },
    "axis": {
        "labelColor": TEXT,
        "titleColor": MUTED,
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
        **_SMALL,
    },
    # Above the axis, because labels in a wider font would overlap it at the side.
    "axisY": {
        "titleAngle": 0,
        "titleAlign": "left",
        "titleAnchor": "end",
        "titleBaseline": "bottom",
        "titleX": 0,
        "titleY": -8,
    },
    "header": {"labelColor": TEXT, "labelFontSize": 12, "labelLimit": 300},
    "legend": {"labelColor": TEXT, "titleColor": MUTED, **_SMALL},
    "text": {"fontSize": 12},
}


def _exchange(light, dark):
    """The CSS rule that replaces a colour by another in fills and strokes."""
    return f'svg.marks [fill="{light}"]{{fill:{dark}}}svg.marks [stroke="{light}"]{{stroke:{dark}}}'


CSS = (
    f"svg.marks{{background:{BACKGROUND}}}@media (prefers-color-scheme: "
    f"dark){{svg.marks{{background:{DARK_BACKGROUND}}}"
    + "".join(_exchange(light, dark) for light, dark in DARK.items())
    + "}"
)
