"""GPT-2 small: Radford et al., Language Models are Unsupervised Multitask Learners, 2019, table 2.

The matrix that turns tokens into vectors also turns vectors into scores, so its gradient is complete, and
can be sent, only when backward has come all the way back to the tokens.  There is no dropout.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["GPT2", "Attention", "Block", "TokenLoss", "gpt2"]


class Attention(nn.Module):
    """Each token looks at itself and those before it, through several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape as ``x``: batch, tokens, width."""
        query, key, value = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(seen.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention, then two full layers for each token; both normalise first and add what they find."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.gelu = nn.GELU(approximate="tanh")
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape as ``x``: batch, tokens, width."""
        x = x + self.attention(self.norm1(x))
        return x + self.down(self.gelu(self.up(self.norm2(x))))  # type: ignore[no-any-return]


class GPT2(nn.Module):
    """Embeddings of tokens and positions, blocks, and the scores of the token that comes next."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, context: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.scores = nn.Linear(width, vocabulary, bias=False)
        self.scores.weight = self.tokens.weight
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                # What is added to the residual sum, twice a block, is scaled so that the sum keeps its size.
                adds = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * layers) ** 0.5 if adds else 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of each word of the vocabulary at each token of a batch of sequences."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        return self.scores(self.norm(self.blocks(x)))  # type: ignore[no-any-return]


class TokenLoss(nn.Module):
    """Cross-entropy, averaged over all tokens of all sequences."""

    def forward(self, scores: Tensor, targets: Tensor) -> Tensor:
        """One number for a batch."""
        return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


def gpt2() -> GPT2:
    """GPT-2 small: 124,439,808 parameters."""
    return GPT2(layers=12, width=768, heads=12, vocabulary=50_257, context=1024)
