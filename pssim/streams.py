"""Named random streams: every random number in pssim is addressed by a seed and a name."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

__all__ = ["stream"]


def stream(seed: int, *name: str | int) -> np.random.Generator:
    """The generator called ``name`` under ``seed``: the same one whatever was drawn elsewhere before.

    Names are hashed with BLAKE2, never with ``hash()``, so that PYTHONHASHSEED changes nothing.
    """
    digest = blake2b("/".join(map(str, name)).encode(), digest_size=16).digest()
    entropy = [seed, int.from_bytes(digest, "little")]
    return np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(entropy)))
