"""The network: links, the cost of collectives, channels, and links that messages share."""

from pssim.network.channel import Channel, Operation
from pssim.network.collectives import CollectiveCost, Network
from pssim.network.link import Link
from pssim.network.sharing import MaxMinLinks, SharedLink

__all__ = ["Channel", "CollectiveCost", "Link", "MaxMinLinks", "Network", "Operation", "SharedLink"]
