"""The chart of the top README: the spread of each row of its table, as an SVG for light and dark pages.

A row is (what, baselines, ratios); a ratio is the fastest baseline's time divided by Sinter's. A line runs from the lowest ratio to the
highest, a dot is their geometric mean, and the vertical line at 1.0 is the fastest baseline. The axis is logarithmic.
"""

import math
from html import escape

import families
from figures import geometric_mean

WIDTH, ROW, TOP, BOTTOM = 860, 23, 58, 30
LEFT, RIGHT = 352, 790  # of the axis
LEAST, MOST = 0.9, 10.0  # ends of the axis; a range that goes on ends in an arrow with its number
TICKS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
STYLE = """  <style>
    text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
    .note { fill: #59636e; font-size: 12px }
    .page { fill: #ffffff }
    .tick { stroke: #d1d9e0 }
    .one { stroke: #1f2328; stroke-width: 1.5 }
    .range { stroke: #54aeff; stroke-width: 6 }
    .below { stroke: #fb8f44; stroke-width: 6 }
    .more { fill: #54aeff }
    .mean { fill: #0550ae }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc }
      .note { fill: #9198a1 }
      .page { fill: #0d1117 }
      .tick { stroke: #3d444d }
      .one { stroke: #f0f6fc }
      .range { stroke: #1f6feb }
      .below { stroke: #bd561d }
      .more { fill: #1f6feb }
      .mean { fill: #a5d6ff }
    }
  </style>"""


def at(ratio):
    """Where a ratio lies on the axis."""
    share = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return round(LEFT + share * (RIGHT - LEFT), 1)


def text(x, y, words, kind="name", anchor="start"):
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


def line(kind, x1, x2, y1, y2):
    return f'<line class="{kind}" x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}"/>'


def said(what, baselines, ratios):
    """A row in words, which browsers show under the pointer and screen readers read."""
    return (f"{what} ({len(ratios)}), against {baselines.replace('`', '')}: lowest {min(ratios):.2f}, geometric mean {geometric_mean(ratios):.2f}, "
            f"highest {max(ratios):.2f}")


def row(number, what, baselines, ratios):
    least, mean, most = min(ratios), geometric_mean(ratios), max(ratios)
    y = TOP + ROW * number + ROW // 2
    parts = [f"<g><title>{escape(said(what, baselines, ratios))}</title>", text(LEFT - 12, y + 4, f"{what} ({len(ratios)})", anchor="end")]
    if least < 1:
        parts.append(line("below", at(least), at(min(most, 1)), y, y))
    if most > 1:
        parts.append(line("range", at(max(least, 1)), at(most), y, y))
    if most > MOST:
        parts.append(f'<path class="more" d="M{RIGHT - 3} {y - 7} l11 7 l-11 7 z"/>')
        parts.append(text(RIGHT - 8, y - 6, f"to {most:.1f}", "note", "end"))
    parts += [f'<circle class="mean" cx="{at(mean)}" cy="{y}" r="5"/>', text(WIDTH - 12, y + 4, f"{mean:.2f}", anchor="end"), "</g>"]
    return "".join(parts)


def axis(height):
    low = height - BOTTOM
    parts = [line("one" if tick == 1 else "tick", at(tick), at(tick), TOP - 6, low) for tick in TICKS]
    parts += [text(at(tick), low + 18, f"{tick:g}", "note", "middle") for tick in TICKS]
    return parts


def svg(rows):
    """The chart of rows (what, baselines, ratios), in their order."""
    height = TOP + ROW * len(rows) + BOTTOM
    head = [text(at(1) - 6, 40, "baseline faster", "note", "end"), text(at(1) + 6, 40, "Sinter faster →", "note"),
            text(WIDTH - 12, 40, "mean", "note", "end"),
            text(12, 20, "Time of the fastest baseline divided by Sinter's: lowest to highest case, dot at the geometric mean")]
    parts = [f'<rect class="page" width="{WIDTH}" height="{height}"/>', *head, *axis(height),
             *(row(number, *one) for number, one in enumerate(rows))]
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
                      "  <title>Sinter compared with the fastest baseline</title>", STYLE, *("  " + part for part in parts), "</svg>", ""])


def of(store):
    """The chart of the families in the top README's table."""
    return svg([(what, baselines, list(rows.ratios.values())) for what, baselines, rows in families.table(store) if rows.ratios])
