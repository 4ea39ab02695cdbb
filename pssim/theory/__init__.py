"""Closed forms: what schemes' step times come to, on plain floats.

Everything here is checked against the simulation, and shares no code with it.
"""

from pssim.theory.delayed import delayed_all_reduce, finish_times
from pssim.theory.servers import parameter_server
from pssim.theory.slowest import Slowest, slowest_factor

__all__ = ["Slowest", "delayed_all_reduce", "finish_times", "parameter_server", "slowest_factor"]
