"""The bundled schemes.  Importing this package registers them."""

from pssim.schemes.all_reduce import DelayedAllReduce
from pssim.schemes.parameter_server import ParameterServer

__all__ = ["DelayedAllReduce", "ParameterServer"]
