"""Figures of the page, embedded as SVG."""

import base64
import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn.plots.figure import chain_color, legend_above
from tensorbnn.report.html import Html, image

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# If there are more points than this, they are rasterized to keep the page small.
MOST_POINTS = 3000
# Inches: small, so that text is readable on a phone and in two columns on paper.
WIDTH = 5.0


def new_axes(height: float = 3.3) -> "Axes":
    """New Axes in a figure without a window."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("a report needs matplotlib: pip install 'tensorbnn[plots]'") from error
    return Figure(figsize=(WIDTH, height), layout="constrained").add_subplot()


def drawn(ax: "Axes", says: str, caption: str) -> Html:
    """An image for the page: the whole figure of `ax`."""
    import matplotlib

    figure: Any = ax.figure
    for each in figure.axes:
        for text in (each.xaxis.label, each.yaxis.label, *legend_texts(each)):
            text.set_parse_math(False)  # names of columns are never formulas
        for line in each.lines:
            line.set_rasterized(len(line.get_xdata()) > MOST_POINTS)
    content = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "tensorbnn"}):
        figure.savefig(content, format="svg", dpi=150, metadata={"Date": None})
    encoded = base64.b64encode(content.getvalue()).decode()
    return image(f"data:image/svg+xml;base64,{encoded}", says, caption)


def plain_ticks(ax: "Axes") -> None:
    """Show few and plain numbers on a logarithmic axis, since powers of ten would overlap."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = ax.get_xlim()
    subs = (1.0, 2.0, 5.0) if high < 100 * low else (1.0,)
    ax.xaxis.set_major_locator(LogLocator(subs=subs, numticks=12))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def legend_texts(ax: "Axes") -> list[Any]:
    """The texts of a legend, if there is one."""
    legend = ax.get_legend()
    return [] if legend is None else legend.get_texts()


def draw_log_density(reports: list[dict[str, Any]], burn_in: int) -> "Axes | None":
    """Log-density of each chain at each report, burn-in included."""
    known = [each for each in reports if each.get("lp") is not None]
    if not known:
        return None
    ax = new_axes()
    for chain in sorted({each["chain"] for each in known}):
        own = [each for each in known if each["chain"] == chain]
        at, values = ([each[name] for each in own] for name in ("transition", "lp"))
        ax.plot(at, values, ".-", lw=1, ms=3, color=chain_color(chain), label=f"chain {chain}")
    after = [each["lp"] for each in known if each["transition"] > burn_in]
    if after:  # burn-in would hide the rest
        low, high = np.min(after), np.max(after)
        pad = max(high - low, 1.0)
        ax.set_ylim(low - pad, high + pad)
    ax.axvspan(0, burn_in, color="0.93", lw=0)
    ax.set(xlabel="transition (gray: burn-in)", ylabel="log-density", xlim=(0, None))
    legend_above(ax)
    return ax


def draw_against_truth(
    mean: NDArray[Any],
    sd: NDArray[Any],
    y: NDArray[Any],
    name: str,
    y_sd: NDArray[Any] | None = None,
) -> "Axes":
    """Predicted against true values, with bars of one standard deviation for both."""
    ax = new_axes(3.9)
    ax.errorbar(
        y, mean, sd, y_sd, fmt="o", ms=3, lw=0.7, color="C0", ecolor="0.75", rasterized=True
    )
    ends = [min(y.min(), mean.min()), max(y.max(), mean.max())]
    ax.plot(ends, ends, color="black", lw=0.8, ls="--")
    ax.set(xlabel=f"true {name}", ylabel=f"predicted {name}")
    return ax


def draw_confusion(predicted: NDArray[Any], true: NDArray[Any], labels: tuple[str, ...]) -> "Axes":
    """A confusion matrix."""
    count = np.zeros((len(labels), len(labels)), int)
    np.add.at(count, (true, predicted), 1)
    ax = new_axes(3.9)
    ax.imshow(count / np.maximum(count.sum(axis=1, keepdims=True), 1), cmap="Blues", vmin=0, vmax=1)
    for row, own in enumerate(count):
        for column, each in enumerate(own):
            dark = each > 0.5 * max(own.sum(), 1)
            ax.text(column, row, str(each), ha="center", va="center", color="w" if dark else "k")
    shown = [label if len(label) <= 12 else f"{label[:11]}…" for label in labels]
    turned = 0 if len(labels) < 6 else 90
    ax.set_xticks(range(len(labels)), shown, rotation=turned, parse_math=False)
    ax.set_yticks(range(len(labels)), shown, parse_math=False)
    ax.set(xlabel="predicted", ylabel="true")
    return ax


def draw_histogram(values: NDArray[Any], name: str, limit: float, *, least: float) -> "Axes":
    """Histogram of one number per point, starting at `least`, with a line at `limit`."""
    ax = new_axes()
    known = values[np.isfinite(values)]
    low, high = min(known.min(), least), max(known.max(), limit)
    high += 0.05 * (high - low)
    ax.hist(known, np.linspace(low, high, 31).tolist(), color="C0")
    ax.axvline(limit, color="tab:red", ls="--", lw=1.2, label=f"limit {limit:g}")
    ax.set(xlabel=name, ylabel="points", xlim=(low, high))
    ax.locator_params(axis="x", nbins=6)  # more numbers such as 1.0025 would overlap
    ax.legend(frameon=False)
    return ax
