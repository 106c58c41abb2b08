import numpy as np
import torch

from models.cross_entropy import cross_entropy


def test_loss_and_gradient_are_those_of_torch_even_of_large_logits() -> None:
    logits = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32) * 100
    labels = np.array([0, 2, 1, 1, 0])
    theirs = torch.from_numpy(logits.copy()).requires_grad_(True)
    expected = torch.nn.functional.cross_entropy(theirs, torch.from_numpy(labels))
    expected.backward()
    loss, gradient = cross_entropy(logits, labels)
    assert theirs.grad is not None
    assert abs(loss - expected.item()) < 1e-4
    assert np.allclose(gradient, theirs.grad.numpy(), atol=1e-6)
    assert gradient.dtype == np.float32
