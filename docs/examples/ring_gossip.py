"""Decentralised training: every rank averages its weights with those of its two neighbours."""

from pydantic import Field

from pssim import Backward, Compute, Forward, Program, Rank, Receive, Scheme, Send, Update


class RingGossip(Scheme):
    """Every rank updates by itself, then averages its weights with its neighbours on a ring.

    Source: X. Lian et al., "Can decentralized algorithms outperform centralized algorithms?", NIPS 2017.
    Assumes that a rank waits for the weights of both neighbours before its next step.
    """

    averaging_ms: float = Field(1.0, ge=0, description="what averaging three sets of weights takes")

    def worker(self, rank: Rank) -> Program:
        """One rank: compute, update, exchange weights with both neighbours, average."""
        neighbours = {(rank.index + side) % rank.world for side in (-1, 1)} - {rank.index}
        for _ in rank.steps():
            yield Forward()
            gradients = []
            for bucket in rank.buckets:
                gradients.append((yield Backward(bucket)))
            yield Update(gradients)
            for neighbour in sorted(neighbours):
                yield Send(rank.weights, to=neighbour)
            for neighbour in sorted(neighbours):
                yield Receive(neighbour)
            if neighbours:
                yield Compute("average", self.averaging_ms * 1e-3)
