import pytest
import torch

from models.device_memory import halved, take_peak_bytes

FULL = torch.cuda.OutOfMemoryError("no room")


@pytest.mark.parametrize(("size", "half"), [(9, 4), (2, 1)])
def test_half_of_what_does_not_fit_is_tried_and_said(size: int, half: int) -> None:
    with pytest.warns(
        RuntimeWarning, match=f"a batch of {size} samples does not fit .* going on with {half} at a time"
    ):
        assert halved(size, FULL) == half


def test_a_single_sample_cannot_be_halved() -> None:
    with pytest.raises(torch.cuda.OutOfMemoryError, match="no room"):
        halved(1, FULL)


def test_a_processor_holds_nothing_on_a_gpu() -> None:
    assert take_peak_bytes(torch.device("cpu")) == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_peak_on_a_gpu_is_that_since_it_was_last_taken() -> None:
    device = torch.device("cuda")
    take_peak_bytes(device)
    held = torch.ones(1 << 20, device=device)
    del held
    assert take_peak_bytes(device) >= 4 << 20
    assert take_peak_bytes(device) < 4 << 20
