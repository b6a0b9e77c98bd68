"""How long a chain remembers: autocorrelation of the predictions, and its length.

The mean in it is that over all networks, and a pair never straddles two chains: chains that
disagree show a correlation that does not die down, as it should be.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn.errors import OptionError
from tensorbnn.warning import LagWarning, warn

# Sokal's window: the sum of the correlations ends at the first lag of this many lengths.
WINDOW = 5.0


def autocorrelation(values: NDArray[Any], max_lag: int) -> NDArray[Any]:
    """Of predictions ``(chains, draws, rows, outputs)``, as `Ensemble.autocorrelation` says."""
    _check_lag(max_lag, values.shape[1])
    total, count = np.zeros((max_lag, values.shape[3])), np.zeros(values.shape[3])
    for row in range(values.shape[2]):
        rho = _normalised(values[:, :, row], max_lag)
        defined = np.isfinite(rho[0])
        total[:, defined] += rho[1:, defined]
        count += defined
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def autocorrelation_length(values: NDArray[Any], max_lag: int | None = None) -> NDArray[Any]:
    """Of predictions ``(chains, draws, rows, outputs)``, as `Ensemble.autocorrelation_length` says.

    The sum so far is positive where the window ends (Sokal's window, which keeps noise out). A
    chain of ``N`` draws is worth about ``N`` over this length of independent ones. NaN where no
    prediction ever changes.
    """
    max_lag = max(values.shape[1] // 2, 1) if max_lag is None else max_lag
    _check_lag(max_lag, values.shape[1])
    found = [_lengths(_normalised(values[:, :, row], max_lag)) for row in range(values.shape[2])]
    lengths, ended = (np.stack(each) for each in zip(*found, strict=True))
    defined = np.isfinite(lengths)
    if not np.all(ended | ~defined):
        rows = int((defined & ~ended).any(axis=1).sum())
        warn(LagWarning(max_lag=max_lag, rows=rows, of=len(lengths)))
    count = defined.sum(axis=0)
    total = np.where(defined, lengths, 0.0).sum(axis=0)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def _normalised(series: NDArray[Any], max_lag: int) -> NDArray[Any]:
    """``rho(n)`` of ``(chains, draws, outputs)`` for n of 0 to `max_lag`, ``(lags, outputs)``."""
    values = np.asarray(series, np.float64)
    draws = values.shape[1]
    centred = values - values.mean(axis=(0, 1))
    # The padding with zeros keeps the end of a chain from meeting its start.
    length = 1 << (draws + max_lag - 1).bit_length()  # a power of two is fast
    transform = np.fft.rfft(centred, length, axis=1)
    power = np.square(transform.real) + np.square(transform.imag)
    sums = np.fft.irfft(power.mean(axis=0), length, axis=0)[: max_lag + 1]
    covariance = sums / (draws - np.arange(max_lag + 1))[:, None]
    constant = np.ptp(values, axis=(0, 1)) == 0
    return np.where(constant, np.nan, covariance / np.where(constant, 1.0, covariance[0]))


def _lengths(rho: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Length for each output of ``(lags, outputs)``, and whether its window ended."""
    sums = 2.0 * np.cumsum(rho, axis=0) - 1.0
    # A chain that swings from side to side has sums that do, too; no length is negative.
    ends = (np.arange(len(rho))[:, None] >= WINDOW * sums) & (sums > 0)
    ended = np.asarray(ends.any(axis=0))
    window = np.where(ended, np.argmax(ends, axis=0), len(rho) - 1)
    return np.take_along_axis(sums, window[None], axis=0)[0], ended


def _check_lag(max_lag: int, draws: int) -> None:
    if max_lag >= draws:
        wanted = f"below the number of draws a chain, which is {draws}"
        raise OptionError("max_lag", wanted, max_lag)
