"""torchvision's data sets, of tiny made-up files in the places where it looks for the real ones."""

from pathlib import Path

import numpy as np
import pytest

from models.data import dataset_classes, load_dataset
from models.datasets.torchvision_names import TORCHVISION
from models.spec import ConfigError, DataConfig
from tests.models.test_data_idx import NUM_TEST, NUM_TRAIN, write_mnist

datasets = pytest.importorskip("torchvision.datasets")


@pytest.mark.parametrize("name", ["MNIST", "FashionMNIST", "KMNIST"])
def test_images_in_one_array_are_read_end_to_end(tmp_path: Path, name: str) -> None:
    write_mnist(tmp_path / name / "raw")
    loaded = load_dataset(DataConfig(dataset=name, root=str(tmp_path)))
    assert isinstance(loaded.x, np.ndarray)
    assert loaded.x.dtype == np.uint8
    assert loaded.x.shape == (NUM_TRAIN + NUM_TEST, 1, 28, 28)
    assert loaded.x[:, 0, 5, 5].tolist() == list(range(NUM_TRAIN + NUM_TEST))
    assert loaded.y.tolist() == [row % 10 for row in range(NUM_TRAIN + NUM_TEST)]
    assert (loaded.test_from, loaded.official) == (NUM_TRAIN, True)


def test_colour_comes_first_and_labels_from_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Letters:
        def __init__(self, root: Path, split: str, train: bool) -> None:
            self.data = np.zeros((2, 4, 4, 3), np.uint8)
            self.data[..., 1] = 255
            self.targets = [1, 26]

        def __len__(self) -> int:
            return 2

    monkeypatch.setattr(datasets, "EMNIST", Letters)
    loaded = load_dataset(DataConfig(dataset="EMNIST-letters", root=str(tmp_path)))
    part = loaded.take(np.arange(4))
    assert part.x[:, :, 0, 0].tolist() == [[0, 1, 0]] * 4
    assert loaded.y.tolist() == [0, 25] * 2
    assert (loaded.classes[0], len(loaded.classes)) == ("a", 26)


def test_images_that_come_as_files_are_read_in_one_shape(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for label in range(10):
        folder = tmp_path / "eurosat" / "2750" / f"class{label}"
        folder.mkdir(parents=True)
        image.new("RGB", (10, 8), (25 * label, 0, 0)).save(folder / "1.png")
    (tmp_path / "eurosat/2750/class3/1.png").write_bytes(b"\x89PNG torn")
    loaded = load_dataset(DataConfig(dataset="EuroSAT", root=str(tmp_path), image_size=4, channels=3))
    part = loaded.take(np.array([9, 3, 2]))
    assert part.x.shape == (2, 3, 4, 4)
    assert part.x[:, 0, 0, 0].tolist() == pytest.approx([225 / 255, 50 / 255])
    assert part.y.tolist() == [9, 2]
    assert part.notes[0].startswith("1 of 3 samples cannot be read and are left out: EuroSAT 3: ")
    assert loaded.test_from is None


def test_a_missing_set_names_the_folder_and_is_not_fetched(tmp_path: Path) -> None:
    for name in ("CIFAR10", "SVHN", "EMNIST-digits"):
        with pytest.raises(ConfigError, match=rf"'{name}': looked in {tmp_path}: .*root.*, or download = true"):
            load_dataset(DataConfig(dataset=name, root=str(tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_it_is_fetched_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fetch(root: Path, train: bool, download: bool = False) -> None:
        asked.append(download)
        raise OSError("no network")

    monkeypatch.setattr(datasets, "CIFAR10", fetch)
    with pytest.raises(ConfigError, match="OSError: no network"):
        load_dataset(DataConfig(dataset="CIFAR10", root=str(tmp_path / "new"), download=True))
    with pytest.raises(ConfigError, match="OSError: no network"):
        load_dataset(DataConfig(dataset="CIFAR10", root=str(tmp_path / "new")))
    assert asked == [True, False]


def test_a_set_that_cannot_be_fetched_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"torchvision cannot download it; put its files below {tmp_path}"):
        load_dataset(DataConfig(dataset="ImageNet", root=str(tmp_path), download=True))


@pytest.mark.parametrize("name", sorted(TORCHVISION))
def test_every_name_stands_for_a_class_with_these_arguments(name: str) -> None:
    import inspect

    source = TORCHVISION[name]
    known = inspect.signature(getattr(datasets, source.kind)).parameters
    for part in source.parts:
        assert set(part) <= set(known) or "kwargs" in known
    assert dataset_classes(DataConfig(dataset=name)) == list(source.classes)


@pytest.mark.parametrize("split", sorted(datasets.EMNIST.splits))
def test_emnist_has_as_many_classes_as_in_torchvision(split: str) -> None:
    names = [name for name in datasets.EMNIST.classes_split_dict[split] if name != "N/A"]
    assert len(dataset_classes(DataConfig(dataset=f"EMNIST-{split}"))) == len(names)


def test_fashion_has_torchvisions_names() -> None:
    assert dataset_classes(DataConfig(dataset="FashionMNIST")) == datasets.FashionMNIST.classes
    assert dataset_classes(DataConfig(dataset="fashion-mnist")) == datasets.FashionMNIST.classes
