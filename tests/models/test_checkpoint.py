import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import numpy

from models import checkpoint

STATE: dict[str, np.ndarray] = {
    "weights": np.arange(6, dtype=np.float32).reshape(2, 3),
    "counter": np.array(3, np.int64),
    "empty": np.zeros((0, 4), np.float32),
    "ids": np.array([1, 2], np.uint16),
    "turned": np.arange(6, dtype=np.float64).reshape(2, 3).T,
}


def test_a_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    checkpoint.write(tmp_path / "a.safetensors", STATE, {"round": "3"})
    arrays, metadata = checkpoint.read(tmp_path / "a.safetensors")
    assert metadata == checkpoint.read_metadata(tmp_path / "a.safetensors") == {"round": "3"}
    assert arrays.keys() == STATE.keys()
    for name, array in STATE.items():
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape)
        assert (arrays[name] == array).all()
    assert checkpoint.state_hash(arrays) == checkpoint.state_hash(STATE)


def test_an_empty_state_comes_back(tmp_path: Path) -> None:
    checkpoint.write(tmp_path / "a.safetensors", {})
    assert checkpoint.read(tmp_path / "a.safetensors") == ({}, {})


def test_no_unfinished_file_is_left(tmp_path: Path) -> None:
    checkpoint.write(tmp_path / "a.safetensors", STATE)
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
def test_a_write_that_fails_leaves_the_old_state(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.safetensors"
    checkpoint.write(path, {"x": np.zeros(3)})

    def fail(*arguments: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(step, fail)
    with pytest.raises(OSError, match="no space left") as failure:
        checkpoint.write(path, {"x": np.ones(3)})
    monkeypatch.undo()
    assert failure.value.filename == (f"{path}.tmp" if step == "os.fsync" else None)
    assert checkpoint.read(path)[0]["x"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("content", [b"", b"torn", b"\xff" * 100, b"\x08\0\0\0\0\0\0\0notjson!"])
def test_a_broken_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    for reader in (checkpoint.read, checkpoint.read_metadata):
        with pytest.raises(checkpoint.CheckpointError, match=r"a\.safetensors: expected a safetensors file"):
            reader(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(checkpoint.CheckpointError, match=r"b\.safetensors"):
        checkpoint.read(tmp_path / "b.safetensors")


def test_a_torn_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    checkpoint.write(path, STATE)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(checkpoint.CheckpointError, match=r"a\.safetensors"):
        checkpoint.read(path)


def test_a_hash_that_was_once_published() -> None:
    assert (
        checkpoint.state_hash({"b": np.array([1.5], np.float32), "a": np.zeros((0, 2), np.uint16)})
        == "c6731c93fccf6dc9b39a21c87e3d91cfa3d849bb022c1c5b63f86527f655dc23"
    )


@pytest.mark.parametrize(
    "other",
    [
        {"x": np.array([1.0, 3.0])},
        {"y": np.array([1.0, 2.0])},
        {"x": np.array([1.0, 2.0], np.float32)},
        {"x": np.array([[1.0, 2.0]])},
        {"x": np.array([1.0, 2.0]), "y": np.zeros(0)},
        {},
    ],
)
def test_every_difference_changes_the_hash(other: dict[str, np.ndarray]) -> None:
    assert checkpoint.state_hash(other) != checkpoint.state_hash({"x": np.array([1.0, 2.0])})


def test_byte_order_memory_order_and_name_order_do_not_change_the_hash() -> None:
    x, y = np.arange(6.0).reshape(2, 3), np.ones(2)
    assert checkpoint.state_hash({"x": x, "y": y}) == checkpoint.state_hash(
        {"y": y, "x": np.asfortranarray(x).astype(">f8", order="F")}
    )


def test_reading_and_writing_needs_no_torch() -> None:
    code = "import sys; from models import client_states; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=Path(__file__).parents[2])


@pytest.mark.parametrize("taught_by", ["", "ml_dtypes"])
def test_a_type_that_numpy_lacks_is_an_error(tmp_path: Path, taught_by: str) -> None:
    if taught_by:
        pytest.importorskip(taught_by)
    path = tmp_path / "a.safetensors"
    header = b'{"x":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(checkpoint.CheckpointError, match=f"{path}: expected arrays of numpy's types"):
        checkpoint.read(path)


def test_a_bit_that_has_changed_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    checkpoint.write(path, STATE)
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x40
    path.write_bytes(content)
    with pytest.raises(checkpoint.CheckpointError, match=r"a\.safetensors: expected the arrays that were written, got"):
        checkpoint.read(path)


def test_a_file_of_others_has_no_checksum(tmp_path: Path) -> None:
    numpy.save_file({"x": np.ones(3)}, tmp_path / "a.safetensors", {"round": "3"})
    arrays, metadata = checkpoint.read(tmp_path / "a.safetensors")
    assert (arrays["x"].tolist(), metadata) == ([1, 1, 1], {"round": "3"})
