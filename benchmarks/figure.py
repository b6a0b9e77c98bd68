"""The benchmark as one figure: the leapfrog step against others, and growth."""

from pathlib import Path

from benchmarks.tables import Table

LABELS = ("W1", "W2", "W3", "W4")


def draw(tables: dict[str, Table], path: Path) -> bool:
    """Draw the tables that exist; return whether there are any."""
    from matplotlib.figure import Figure

    grown = [name for name in tables if name.startswith("growth-")]
    panels = ["leapfrog"] * ("leapfrog" in tables) + grown
    if not panels:
        return False
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.6 * rows), layout="constrained")
    for index, name in enumerate(panels):
        ax = figure.add_subplot(rows, columns, index + 1)
        if name == "leapfrog":
            _leapfrog(ax, tables[name])
        else:
            _growth(ax, tables[name])
    figure.savefig(path, dpi=120)
    return True


def _leapfrog(ax, table: Table) -> None:
    cases = dict.fromkeys(zip(table.column("workload"), table.column("chains"), strict=True))
    samplers = list(dict.fromkeys(table.column("sampler")))
    found = {(row[0], row[1], row[2]): row[table.columns.index("× limit")] for row in table.rows}
    width = 0.8 / len(samplers)
    for index, sampler in enumerate(samplers):
        heights = [found.get((*case, sampler), 0.0) for case in cases]
        at = [x + (index - len(samplers) / 2 + 0.5) * width for x in range(len(cases))]
        ax.bar(at, heights, width, label=sampler)
    ax.axhline(1, color="black", linewidth=0.8)
    ax.set_yscale("log")
    ax.set_xticks(range(len(cases)), [f"{name}\n{chains}" for name, chains in cases])
    ax.set_xlabel("workload, chains")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_ylabel("time over the machine's limit")
    ax.legend(fontsize=7)


def _growth(ax, table: Table) -> None:
    for engine in table.columns[4:]:
        ax.plot(table.column(table.columns[0]), table.column(engine), marker="o", label=engine)
    ax.set_xscale("log")
    ax.set_yscale("log")
    measured = table.column(table.columns[0])
    ax.set_xticks(measured, [f"{each:,}" for each in measured], fontsize=8)
    ax.set_xticks([], minor=True)
    ax.yaxis.set_major_formatter("{x:,g}")
    ax.set_xlabel(table.columns[0])
    ax.set_ylabel("µs per step and chain")
    ax.legend(fontsize=8)
