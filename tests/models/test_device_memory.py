import pytest
import torch

from models.device_memory import halved

FULL = torch.OutOfMemoryError("no room")


@pytest.mark.parametrize(("size", "half"), [(9, 4), (2, 1)])
def test_half_of_what_does_not_fit_is_tried_and_said(size: int, half: int) -> None:
    with pytest.warns(
        RuntimeWarning, match=f"a batch of {size} samples does not fit .* going on with {half} at a time"
    ):
        assert halved(size, FULL) == half


def test_a_single_sample_cannot_be_halved() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="no room"):
        halved(1, FULL)
