"""Public samples: held out of all clients' data, the same for everyone who asks."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from models.data import (
    ClientParts,
    Dataset,
    UnreadableSampleError,
    load_client_data,
    load_dataset,
    load_public_data,
    scaled,
)
from models.partition import Labels, drawn_indices, named_rows, public_rows, split
from models.spec import ConfigError, DataConfig, EvaluationConfig, RunSpec
from tests.models.small_run import make_spec

Y = np.arange(400) % 4
LABELS = Labels(Y, test_from=300)

HELD = {"public_per_class": 5, "public_classes": 2}


def config(name: str = "iid", **settings: Any) -> DataConfig:
    return DataConfig(partition=name, num_clients=2, min_size=1, **{**HELD, **settings})


def all_rows(splits: list[Any]) -> list[int]:
    return sorted(np.concatenate([part for train, test, _ in splits for part in (train, test)]).tolist())


def test_equally_many_of_the_first_classes_are_public() -> None:
    rows = public_rows(LABELS, config(), 0)
    assert np.bincount(Y[rows]).tolist() == [5, 5]
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert rows.max() < 300


@pytest.mark.parametrize("name", ["iid", "dirichlet", "pathological", "shard", "w-way-s-shot", "fedgen-dirichlet"])
@pytest.mark.parametrize("labels", [LABELS, Labels(Y), LABELS._replace(spreads_test=True)])
def test_no_client_has_a_public_row(name: str, labels: Labels) -> None:
    about = config(name, ways=2, ways_half_range=0, shots=5)
    assert not set(public_rows(labels, about, 0)) & set(all_rows(split(labels, about, 0)))


def test_an_even_spread_uses_every_other_row() -> None:
    for labels, end in ((LABELS, 300), (LABELS._replace(spreads_test=True), 400)):
        public = public_rows(labels, config(), 0)
        assert all_rows(split(labels, config(), 0)) == sorted(set(range(end)) - set(public.tolist()))


def test_the_draw_depends_on_the_seed_alone() -> None:
    rows = [
        public_rows(LABELS, about, seed).tolist()
        for about, seed in ((config(), 0), (config("shard"), 0), (config(), 1))
    ]
    assert rows[0] == rows[1] != rows[2]


@pytest.mark.parametrize("settings", [{}, {"public_per_class": 0}, {"public_per_class": 0, "public_classes": 3}])
def test_without_public_samples_nothing_changes(settings: dict[str, Any]) -> None:
    plain = DataConfig(num_clients=2)
    drawn = drawn_indices(msgspec.structs.replace(plain, **settings), LABELS, 0)
    before = drawn_indices(plain, LABELS, 0)
    assert {name: rows.tolist() for name, rows in drawn.items()} == {
        name: rows.tolist() for name, rows in before.items()
    }
    assert not len(public_rows(LABELS, msgspec.structs.replace(plain, **settings), 0))


def test_auto_stands_for_the_methods_number_and_half_the_classes() -> None:
    assert DataConfig().num_public_classes == 0
    for num_classes, half in ((10, 5), (7, 4), (1, 1)):
        settled = DataConfig().settled(20, num_classes)
        assert (settled.public_per_class, settled.num_public_classes) == (20, half)
    assert DataConfig().settled(0, 10).num_public_classes == 0
    assert DataConfig(public_per_class=0).settled(20, 10).num_public_classes == 0
    own = DataConfig(public_per_class=3, public_classes=10).settled(20, 10)
    assert (own.public_per_class, own.num_public_classes) == (3, 10)


def test_more_public_classes_than_there_are_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"\[data\] public_classes = 11: expected at most 10, all classes"):
        DataConfig(public_classes=11).settled(20, 10)


@pytest.mark.parametrize("labels", [LABELS, Labels(np.repeat([0, 2], 200))])
def test_a_class_of_too_few_samples_is_named(labels: Labels) -> None:
    lacking, found = (0, 75) if labels is LABELS else (1, 0)
    with pytest.raises(
        ConfigError, match=rf"public_per_class = 76, .*: class {lacking} has {found} samples to hold out"
    ):
        split(labels, config(public_per_class=76), 0)


@pytest.mark.parametrize("name", ["iid", "fedgen-dirichlet"])
def test_drawn_indices_are_read_back_as_they_were_drawn(tmp_path: Path, name: str) -> None:
    drawn = drawn_indices(config(name), LABELS, 7)
    np.savez(tmp_path / "split.npz", **drawn)  # type: ignore[arg-type]
    splits = split(LABELS, config("indices", indices=str(tmp_path / "split.npz")), 7)
    assert [part.note for part in splits] == ["", ""]
    assert {key: rows.tolist() for key, rows in named_rows(splits).items()} == {
        key: rows.tolist() for key, rows in drawn.items()
    }


def test_public_rows_of_a_file_are_left_out_and_counted(tmp_path: Path) -> None:
    """Of this file, which names every row, all public ones go, and the rest keep their order."""
    named = {"client00_train": np.arange(300), "client00_test": np.arange(300, 350)}
    named |= {"client01_train": np.arange(0), "client01_test": np.arange(399, 350, -1)}
    np.savez(tmp_path / "split.npz", **named)  # type: ignore[arg-type]
    about = config("indices", indices=str(tmp_path / "split.npz"))
    public = public_rows(LABELS, about, 0)
    first, second = split(LABELS, about, 0)
    assert first.train.tolist() == [row for row in range(300) if row not in public]
    assert first.test.tolist() == list(range(300, 350))
    assert first.note == "10 rows of the file are public and left out"
    assert (second.test.tolist(), second.note) == (list(range(399, 350, -1)), "")


def test_a_file_is_checked_against_the_whole_data_set(tmp_path: Path) -> None:
    names = {f"client{index:02d}_{part}": np.zeros(0, int) for index in range(2) for part in ("train", "test")}
    for rows, text in (([400], r"row 400, expected 0\.\.299"), ([300], r"row 300, expected 0\.\.299; .*pool = 'all'")):
        np.savez(tmp_path / "split.npz", **{**names, "client01_train": np.array(rows)})  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=text):
            split(LABELS, config("indices", indices=str(tmp_path / "split.npz")), 0)


def run_spec(folder: Path, **settings: Any) -> RunSpec:
    x = np.arange(400 * 4, dtype=np.uint16).reshape(400, 2, 2).astype(np.uint8)
    np.savez(folder / "data.npz", x=x, y=Y, test_from=300)
    about = config(dataset="npz", root=str(folder), **settings)
    return make_spec("any", data=about, evaluation=EvaluationConfig(test="global"))


def test_public_samples_are_as_the_data_set_stores_them(tmp_path: Path) -> None:
    spec = run_spec(tmp_path)
    public, dataset = load_public_data(spec), load_dataset(spec.data)
    rows = public_rows(dataset.labels(spec.data), spec.data, spec.seed)
    assert (public.x.dtype.name, public.x.shape) == ("uint8", (10, 1, 2, 2))
    assert np.bincount(public.y).tolist() == [5, 5]
    assert (scaled(public.x) == dataset.take(rows).x).all()
    assert scaled(public.x).max() <= 1


def test_clients_and_the_global_test_set_agree(tmp_path: Path) -> None:
    spec = run_spec(tmp_path)
    parts = ClientParts(spec)
    alone = [load_client_data(spec, index) for index in range(2)]
    assert all((parts.client(index).train_x == alone[index].train_x).all() for index in range(2))
    assert sum(len(split.train) + len(split.test) for split in parts.splits) == 300 - 10
    assert len(alone[0].test_y) == 100


def test_without_test_rows_apart_the_global_test_set_has_no_public_row(tmp_path: Path) -> None:
    spec = run_spec(tmp_path)
    np.savez(tmp_path / "data.npz", x=np.arange(400.0).reshape(400, 1), y=Y)
    public = load_public_data(spec).x[:, 0]
    assert not set(public) & set(load_client_data(spec, 0).test_x[:, 0])


def test_another_label_map_is_refused(tmp_path: Path) -> None:
    spec = msgspec.structs.replace(run_spec(tmp_path), classes=["a", "b"])
    with pytest.raises(
        ConfigError, match=r"public data: expected label map \['a', 'b'\], .*'npz' has \['0', '1', '2', '3'\]"
    ):
        load_public_data(spec)


def test_labels_outside_the_label_map_are_refused(tmp_path: Path) -> None:
    spec = msgspec.structs.replace(run_spec(tmp_path), classes=["a", "b"])
    spec = msgspec.structs.replace(spec, data=msgspec.structs.replace(spec.data, classes=["a", "b"]))
    with pytest.raises(ConfigError, match=r"y: row 2 has label 2, expected an id of the label map 0\.\.1"):
        load_public_data(spec)


class Torn:
    """Sample files of which one cannot be read."""

    shape = (1, 2, 2)

    def __len__(self) -> int:
        return 8

    def read(self, row: int) -> np.ndarray:
        if row == 0:
            raise UnreadableSampleError("a.png: not an image")
        return np.full(self.shape, row / 8, np.float32)


def torn(config: DataConfig) -> Dataset:
    return Dataset(Torn(), np.arange(8) % 2, ["0", "1"])


def test_an_unreadable_public_sample_is_refused_by_name() -> None:
    data = DataConfig(dataset="tests.models.test_data_public:torn", public_per_class=4, public_classes=1)
    with pytest.raises(ConfigError, match=r"public data: 1 of 4 samples cannot be read .*a\.png: not an image"):
        load_public_data(make_spec("any", num_classes=2, data=data))
    readable = msgspec.structs.replace(data, public_classes=2, public_per_class=0)
    assert not len(load_public_data(make_spec("any", num_classes=2, data=readable)).y)
