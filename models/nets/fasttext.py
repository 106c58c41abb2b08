"""A net for texts: the mean of its tokens' embeddings.

A. Joulin, E. Grave, P. Bojanowski, T. Mikolov. "Bag of Tricks for Efficient Text Classification." EACL 2017,
https://arxiv.org/abs/1607.01759.
"""

from __future__ import annotations

import torch
from torch import nn

from models.nets.net import Net
from models.spec import ConfigError


class FastText(Net):
    """Takes token ids int64 [B, L], 0 where a text has ended; its feature is the mean embedding of the others.

    The ids from `vocab_size` on share the rows of smaller ones, as the hashed n-grams of the paper do.
    """

    def __init__(
        self, input_shape: tuple[int, ...], feature_dim: int, num_classes: int, vocab_size: int = 32_768
    ) -> None:
        super().__init__(feature_dim, num_classes)
        if len(input_shape) != 1:
            raise ConfigError(f"expected token ids [L], got samples of shape {list(input_shape)}")
        self.embedding = nn.EmbeddingBag(vocab_size, feature_dim, mode="mean", padding_idx=0)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features [B, D], zeros for a text without tokens."""
        rows_BL = torch.where(x > 0, (x - 1) % (self.embedding.num_embeddings - 1) + 1, 0)
        made: torch.Tensor = self.embedding(rows_BL)
        return made
