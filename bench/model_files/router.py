"""Router rows that prefer some experts, and how unevenly a router chooses.

There is no bias to raise an expert with and random inputs have no common direction, so popularity
is a matter of row length: over inputs of random direction the logit of a row of length r is normal
with deviation r, and the chance to be among the best K grows with r. Rows point at random, lengths
are such that the chance to be chosen falls as rank to the power of -skew. No length gets an expert
chosen for more than half of all inputs, so the head of a steep law is cut off at `CHANCE_MOST`.

Measured with 512 experts of which 10 are used, on 20,000 random inputs of width 2560: the busiest
quarter of the experts gets 27% of the choices at skew 0 (25% but for chance), 48% at 0.5, 75% at 1
(the law alone: 50% and 80%). `models.py --check` measures it for the routers of a file.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
CHANCE_MOST = 0.45
BISECTIONS = 60
INPUTS_PER_BATCH = 1000


def router_rows(
    random: np.random.Generator, *, experts: int, used: int, inputs: int, skew: float, rms: float
) -> Floats:
    """(experts, inputs) float32 of root mean square `rms`; ranks are dealt at random."""
    lengths = random.permutation(row_lengths(experts=experts, used=used, skew=skew))
    rows = random.standard_normal((experts, inputs), np.float32)
    rows /= np.sqrt(np.square(rows).mean(1, keepdims=True))  # only rank decides on the length
    scaled: Floats = rows * (rms * lengths[:, None]).astype(np.float32)
    return scaled


def row_lengths(*, experts: int, used: int, skew: float) -> NDArray[np.float64]:
    """(experts,) by rank, their mean square 1."""
    chances = _chances(experts=experts, used=used, skew=skew)
    lengths = np.array([-1 / NormalDist().inv_cdf(chance) for chance in chances])
    scaled: NDArray[np.float64] = lengths / np.sqrt(np.square(lengths).mean())
    return scaled


def busiest_quarter_share(rows: Floats, *, used: int, num_inputs: int, seed: int = 0) -> float:
    """Share, 0-1, of all choices that falls to the most chosen quarter of the experts.

    rows (experts, inputs); the inputs are random, and a quarter is at least one expert.
    """
    random = np.random.default_rng(seed)
    counts = np.zeros(len(rows), np.int64)
    for start in range(0, num_inputs, INPUTS_PER_BATCH):
        batch = min(INPUTS_PER_BATCH, num_inputs - start)
        logits = random.standard_normal((batch, rows.shape[1]), np.float32) @ rows.T
        chosen = np.argpartition(-logits, used - 1, axis=1)[:, :used]
        counts += np.bincount(chosen.ravel(), minlength=len(rows))
    busiest = np.sort(counts)[::-1][: max(1, len(rows) // 4)]
    return float(busiest.sum() / counts.sum())


def _chances(*, experts: int, used: int, skew: float) -> NDArray[np.float64]:
    """(experts,): min(CHANCE_MOST, c / rank^skew) with c such that they sum to `used`."""
    law = np.arange(1, experts + 1, dtype=np.float64) ** -skew
    low, high = 0.0, CHANCE_MOST / law[-1]
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if np.minimum(CHANCE_MOST, middle * law).sum() < used:
            low = middle
        else:
            high = middle
    return np.minimum(CHANCE_MOST, high * law)
