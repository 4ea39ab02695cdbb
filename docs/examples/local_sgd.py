from pydantic import Field

from pssim import AllReduce, Backward, Forward, Program, Rank, Scheme, Update, Wait


class LocalSGD(Scheme):
    """Every rank trains by itself, and all average their weights every ``period`` steps."""

    period: int = Field(8, ge=1, description="steps from one averaging to the next")

    def worker(self, rank: Rank) -> Program:
        for step in rank.steps():
            yield Forward()
            gradients = []
            for bucket in rank.buckets:
                gradients.append((yield Backward(bucket)))
            yield Update(gradients)
            if (step + 1) % self.period == 0:
                handles = []
                for gradient in gradients:  # weights have as many bytes as gradients
                    handles.append((yield AllReduce(gradient)))
                yield Wait(*handles)

    def pattern(self) -> int:
        return self.period  # steps repeat in patterns of this length, and are measured in whole ones
