from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
import torch

from models import nets, seeding
from models.methods.api import Client, ClientContext
from models.spec import TrainingConfig
from models.steps import TrainingDivergedError, count_steps
from models.training import Batch, train
from tests.models.small_run import make_data, make_spec
from wire.payload import Nothing, Record


class Recorder(Client):
    """Trains by cross-entropy and remembers its batches."""

    def __init__(self, labels: Collection[int], net: str = "cnn") -> None:
        super().__init__(make_spec("any"), None)
        data = make_data(labels)
        seeding.seed_torch(0, "init")
        built = nets.build_net(net, data.train_x.shape[1:], 6, 4)
        x, y = torch.from_numpy(data.train_x), torch.from_numpy(data.train_y)
        self.start(ClientContext("a", built, torch.device("cpu"), x, y, np.bincount(data.train_y, minlength=4)))
        self.batches: list[Batch] = []
        self.norms_in_training: list[bool] = []

    def receive(self, exchange: str, downlink: Any) -> None:
        pass

    def uplink(self, exchange: str) -> Record:
        return Nothing()

    def loss(self, batch: Batch) -> torch.Tensor:
        self.batches.append(batch)
        norms = [module for module in self.context.net.modules() if isinstance(module, torch.nn.BatchNorm2d)]
        self.norms_in_training += [norm.training for norm in norms[:1]]
        return super().loss(batch)


def config(**changes: Any) -> TrainingConfig:
    return TrainingConfig(**{"local_epochs": 1, "batch_size": 4, **changes})


def sizes(client: Recorder) -> list[int]:
    return [len(batch.y) for batch in client.batches]


@pytest.mark.parametrize(
    ("num_samples", "expected"),
    [(8, [4, 4]), (10, [4, 4, 2]), (9, [4, 5]), (5, [5]), (3, [3]), (2, [2]), (1, [1]), (0, [])],
)
def test_all_samples_are_used_and_no_batch_of_one_is_left_over(num_samples: int, expected: list[int]) -> None:
    client = Recorder([0, 1, 2, 3, 0, 1, 2, 3, 0, 1][:num_samples])
    train(client, config(), seed=0)
    assert sizes(client) == expected
    seen = [batch.x.flatten(1) for batch in client.batches]
    if seen:
        assert sorted(torch.cat(seen).tolist()) == sorted(client.context.train_x.flatten(1).tolist())


@pytest.mark.parametrize(
    ("num_samples", "expected"),
    [(10, [4, 4, 2, 4, 4]), (4, [4] * 5), (3, [3] * 5), (1, [1] * 5), (0, [])],
)
def test_local_steps_are_exactly_so_many_batches_of_epochs_in_turn(num_samples: int, expected: list[int]) -> None:
    client = Recorder([0, 1, 2, 3, 0, 1, 2, 3, 0, 1][:num_samples])
    train(client, config(local_steps=5, local_epochs=9), seed=0)
    assert sizes(client) == expected


def test_local_steps_begin_with_the_batches_of_local_epochs() -> None:
    by_epochs, by_steps = Recorder([0, 1, 2, 3] * 4), Recorder([0, 1, 2, 3] * 4)
    train(by_epochs, config(local_epochs=2), seed=0)
    train(by_steps, config(local_steps=6), seed=0)
    assert len(by_steps.batches) == 6
    for expected, batch in zip(by_epochs.batches, by_steps.batches, strict=False):
        assert (expected.x == batch.x).all()


def test_each_epoch_is_shuffled_anew() -> None:
    client = Recorder([0, 1, 2, 3] * 4)
    train(client, config(local_epochs=2, batch_size=16), seed=0)
    first, second = (batch.x.flatten().tolist() for batch in client.batches)
    assert first != second
    assert first != client.context.train_x.flatten().tolist()


def test_a_batch_of_one_leaves_batch_norm_in_evaluation_mode_for_that_step() -> None:
    client = Recorder([2])
    before = nets.flatten_parameters(client.context.net)
    buffers = nets.flatten_buffers(client.context.net)
    train(client, config(), seed=0)
    assert client.norms_in_training == [False]
    assert (nets.flatten_buffers(client.context.net) == buffers).all()
    assert (nets.flatten_parameters(client.context.net) != before).any()
    assert all(module.training for module in client.context.net.modules())


def test_a_batch_size_of_one_trains_on_single_samples() -> None:
    client = Recorder([0, 1, 2])
    train(client, config(batch_size=1), seed=0)
    assert sizes(client) == [1, 1, 1]
    assert client.norms_in_training == [False] * 3


def test_larger_batches_train_batch_norm() -> None:
    client = Recorder([0, 1, 2])
    buffers = nets.flatten_buffers(client.context.net)
    train(client, config(), seed=0)
    assert client.norms_in_training == [True]
    assert (nets.flatten_buffers(client.context.net) != buffers).any()


def test_without_samples_nothing_happens() -> None:
    client = Recorder([])
    before = nets.net_arrays(client.context.net)
    assert train(client, config(), seed=0) == 0.0
    after = nets.net_arrays(client.context.net)
    assert all((after[name] == before[name]).all() for name in before)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_same_seed_trains_the_same_net(optimizer: str) -> None:
    trained = []
    for seed in (0, 0, 1):
        client = Recorder([0, 1, 2, 3] * 3)
        train(client, config(optimizer=optimizer), seed)
        trained.append(nets.flatten_parameters(client.context.net))
    assert (trained[0] == trained[1]).all()
    assert (trained[0] != trained[2]).any()


def test_one_step_of_gradient_descent_by_hand() -> None:
    client = Recorder([0, 1], net="mlp")
    net = client.context.net
    before = nets.flatten_parameters(net)
    client.loss(Batch(client.context.train_x, client.context.train_y)).backward()
    gradient = torch.cat([tensor.grad.flatten() for tensor in net.parameters() if tensor.grad is not None]).numpy()
    train(client, config(lr=0.1, momentum=0.0), seed=0)
    assert np.allclose(nets.flatten_parameters(net), before - 0.1 * gradient, atol=1e-7)


def test_the_optimiser_is_new_each_time() -> None:
    """Momentum that was carried over would move the second step further than a lone first step from there."""
    client = Recorder([0, 1], net="mlp")
    train(client, config(), seed=0)
    state = nets.net_arrays(client.context.net)
    train(client, config(), seed=1)
    other = Recorder([0, 1], net="mlp")
    nets.load_net_arrays(other.context.net, state)
    train(other, config(), seed=1)
    assert (nets.flatten_parameters(client.context.net) == nets.flatten_parameters(other.context.net)).all()


def test_progress_is_told_after_each_step() -> None:
    told: list[tuple[int, int]] = []
    train(Recorder([0] * 10), config(local_epochs=2), 0, lambda done, total: told.append((done, total)))
    assert told == [(done, 6) for done in range(1, 7)]


def test_progress_may_abandon_the_training() -> None:
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    client = Recorder([0] * 10)
    with pytest.raises(KeyboardInterrupt):
        train(client, config(), 0, stop)
    assert len(client.batches) == 2


def test_training_lowers_the_loss() -> None:
    client = Recorder([0, 1, 2, 3] * 4)
    first, second = (train(client, config(local_epochs=15, batch_size=16), seed) for seed in range(2))
    assert second < first / 2


def test_a_loss_that_is_not_finite_is_an_error_that_names_the_client() -> None:
    with pytest.raises(TrainingDivergedError, match=r"client a: the training loss is (nan|inf); lower"):
        train(Recorder([0, 1, 2, 3] * 4, net="mlp"), config(lr=1e30, local_epochs=3), 0)


class Narrow(Recorder):
    """A client whose device has room for a few samples; `late`, a batch too large fails in its backward pass."""

    def __init__(self, labels: Collection[int], room: int, net: str = "mlp", late: bool = False) -> None:
        super().__init__(labels, net)
        self.room = room
        self.late = late

    def loss(self, batch: Batch) -> torch.Tensor:
        loss = super().loss(batch)
        if len(batch.y) <= self.room:
            return loss
        if not self.late:
            raise torch.cuda.OutOfMemoryError("no room")
        bias = self.context.net.head.bias
        bias.grad = torch.full_like(bias, 1e6)  # what a backward pass had got to
        return RunsOut.apply(loss)  # type: ignore[no-any-return]


class RunsOut(torch.autograd.Function):
    """Passes on a loss and runs out of memory on the way back."""

    @staticmethod
    def forward(context: Any, loss: torch.Tensor) -> torch.Tensor:
        return loss.clone()

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> None:
        raise torch.cuda.OutOfMemoryError("no room")


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("room", [1, 3, 5])
def test_a_batch_that_does_not_fit_is_halved_and_gives_the_same_step(room: int, late: bool) -> None:
    labels = [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2]
    whole, narrow = Recorder(labels, net="mlp"), Narrow(labels, room, late=late)
    steps = config(batch_size=11, local_epochs=2, lr=0.1)
    with pytest.warns(RuntimeWarning, match="does not fit into the device's memory: going on with"):
        loss = train(narrow, steps, seed=0)
    assert loss == pytest.approx(train(whole, steps, seed=0), abs=1e-6)
    trained, expected = (nets.flatten_parameters(each.context.net) for each in (narrow, whole))
    assert np.abs(trained - expected).max() < 1e-6


def test_a_size_that_fits_is_kept_and_each_halving_is_said() -> None:
    client = Narrow([0, 1, 2, 3] * 4, room=5)
    with pytest.warns(RuntimeWarning) as told:
        train(client, config(batch_size=8, local_epochs=2), seed=0)
    assert sizes(client) == [8, 4, 4] + [4, 4] * 3
    assert [str(each.message) for each in told] == [
        "a batch of 8 samples does not fit into the device's memory: going on with 4 at a time"
    ]


def test_a_batch_is_halved_with_a_torch_that_has_the_error_by_its_older_name_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(torch, "OutOfMemoryError", raising=False)
    client = Narrow([0, 1, 2, 3], room=2)
    with pytest.warns(RuntimeWarning, match="does not fit"):
        train(client, config(batch_size=4), seed=0)
    assert sizes(client)[:3] == [4, 2, 2]


def test_a_piece_of_one_sample_leaves_batch_norm_in_evaluation_mode() -> None:
    client = Narrow([0, 1, 2], room=2, net="cnn")
    with pytest.warns(RuntimeWarning):
        train(client, config(), seed=0)
    assert (sizes(client), client.norms_in_training) == ([3, 1, 1, 1], [True, False, False, False])
    assert all(module.training for module in client.context.net.modules())


def test_a_single_sample_that_does_not_fit_is_an_error() -> None:
    with pytest.warns(RuntimeWarning), pytest.raises(torch.cuda.OutOfMemoryError):
        train(Narrow([0, 1], room=0), config(), seed=0)


@pytest.mark.parametrize("num_samples", [0, 1, 2, 3, 8, 9, 10])
@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("local_steps", [0, 5])
def test_steps_are_counted_as_they_are_taken(num_samples: int, batch_size: int, local_steps: int) -> None:
    client = Recorder([0] * num_samples)
    steps = config(batch_size=batch_size, local_epochs=3, local_steps=local_steps)
    train(client, steps, seed=0)
    assert count_steps(num_samples, steps) == len(client.batches)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("net", ["mlp", "cnn", "fedpa-cnn"])
def test_a_gpu_agrees_with_the_cpu_after_an_epoch(net: str) -> None:
    seeding.set_threads(1)
    trained = []
    for device in ("cpu", "cuda"):
        client = Recorder([0, 1, 2, 3] * 8, net)
        x, y = client.context.train_x.to(device), client.context.train_y.to(device)
        built = client.context.net.to(device)
        client.start(ClientContext("a", built, torch.device(device), x, y, client.context.class_counts))
        train(client, config(lr=0.01), seed=0)
        trained.append(np.concatenate([nets.flatten_parameters(built), nets.flatten_buffers(built)]))
    assert np.abs(trained[0] - trained[1]).max() < 1e-4


def test_a_net_for_texts_trains_like_any_other() -> None:
    client = Recorder([0, 1, 2, 3] * 4)
    texts, y = torch.arange(1, 17).reshape(4, 4)[client.context.train_y], client.context.train_y
    built = nets.build_net("fasttext", (4,), 6, 4, dtype="int64", vocab_size=100)
    client.start(ClientContext("a", built, torch.device("cpu"), texts, y, client.context.class_counts))
    train(client, config(local_epochs=30, lr=0.5), seed=0)
    assert (built(texts).argmax(dim=1) == y).all()


def test_a_clipped_step_is_no_longer_than_its_limit() -> None:
    client = Recorder([0, 1, 2, 3], net="mlp")
    before = nets.flatten_parameters(client.context.net)
    train(client, config(lr=1.0, momentum=0.0, clip_norm=0.01), seed=0)
    moved = float(np.linalg.norm(nets.flatten_parameters(client.context.net) - before))
    assert moved == pytest.approx(0.01, rel=1e-3)
