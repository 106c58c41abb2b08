"""What a net's work amounts to, whatever does it."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from models.nets.net import Net


def count_flops(net: Net, x: torch.Tensor) -> int:
    """Return the operations of all products of matrices and convolutions on the way of samples `x` through the net."""
    was_training = net.training
    net.eval()
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            net(x)
    finally:
        net.train(was_training)
    return int(counter.get_total_flops())
