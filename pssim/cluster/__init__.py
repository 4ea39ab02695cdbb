"""The machine: which rank sits on which node, and how much their compute times vary."""

from pssim.cluster.jitter import Jitter, JitterSource
from pssim.cluster.placement import Placement, fill_nodes

__all__ = ["Jitter", "JitterSource", "Placement", "fill_nodes"]
