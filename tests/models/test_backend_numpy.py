"""Clients over a frozen backbone in an ONNX file: alone, and together with torch clients."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import backend_numpy, methods
from models.checkpoint import state_hash
from models.data import ClientData
from models.nets.frozen_backbone import check_file, constants_of, file_digest
from models.nets.onnx_session import OnnxSession
from models.participant import Participant
from models.spec import ConfigError, ModelConfig, TrainingConfig
from tests.models.federation import Federation
from tests.models.onnx_files import write_backbone
from tests.models.small_run import UNEVEN, make_data, make_spec

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_backbone(tmp_path / "backbone.onnx", (1, 4, 4), 12)
    return tmp_path / "backbone.onnx"


def model(path: Path, feature_dim: int = 6, **changes: Any) -> ModelConfig:
    return ModelConfig(name="onnx", path=str(path), feature_dim=feature_dim, **changes)


def participant(config: ModelConfig, data: ClientData | None = None, method: str = "fedproto") -> Participant:
    spec = make_spec(method, model=config)
    return Participant(spec, methods.find(method), "a", data or make_data(UNEVEN["a"]), constants_of(config))


@pytest.mark.parametrize(("method", "feature_dim"), [("fedproto", 6), ("headcal", 12), ("local_only", 6)])
def test_two_runs_are_equal_in_bits(path: Path, method: str, feature_dim: int) -> None:
    hashes = []
    for _ in range(2):
        spec = make_spec(method, model=model(path, feature_dim))
        run = Federation(spec, {name: make_data(labels) for name, labels in UNEVEN.items()})
        for number in (1, 2):
            for done in run.round(number):
                for client, facts in done.facts.items():
                    assert done.uplinks[client].sizes == done.exchange.uplink.sizes(done.exchange.uplink_dims(facts))
                    assert done.downlink.sizes == done.exchange.downlink.sizes(done.exchange.downlink_dims(facts))
        run.final_evaluation()
        hashes.append(state_hash({**run.server.arrays(), **run.clients["a"].arrays()}))
    assert hashes[0] == hashes[1]


def test_clients_with_and_without_torch_share_prototypes(path: Path) -> None:
    spec = make_spec("fedproto")
    run = Federation(spec, {name: make_data(labels) for name, labels in UNEVEN.items()})
    other = participant(model(path))
    run.clients["a"] = other
    (done,) = run.round(1)
    assert {name: done.uplinks[name].arrays["prototypes"].shape for name in "ab"} == {"a": (3, 6), "b": (2, 6)}
    (again,) = run.round(2)
    assert again.downlink.arrays["classes"].tolist() == [0, 1, 2]


def test_each_sample_passes_the_backbone_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    real = OnnxSession.run

    def counting(self: OnnxSession, x: np.ndarray, outputs: Any = None) -> list[np.ndarray]:
        seen.append(len(x))
        return real(self, x, outputs)

    monkeypatch.setattr(OnnxSession, "run", counting)
    run = Federation(make_spec("fedproto", model=model(path)), {"a": make_data(UNEVEN["a"])})
    passed = sum(seen)
    assert passed == 6 + 6 + 1, "train and test part, and a sample of zeros"
    run.round(1)
    run.final_evaluation()
    assert sum(seen) == passed
    before = make_data(UNEVEN["a"])
    more = make_data([3], seed=9)
    more = replace(
        before, train_x=np.concatenate([more.train_x, before.train_x]), train_y=np.array([3, 0, 0, 0, 1, 1, 2])
    )
    run.clients["a"].renew(more)
    assert sum(seen) == passed + 1, "of the samples that have come since"
    assert run.clients["a"].announcement.class_counts == [3, 2, 1, 1]
    fresh = Participant(run.spec, run.method, "a", more, run.server.constants())
    assert (run.clients["a"]._data.train_x == fresh._data.train_x).all()


def test_a_backbone_is_opened_for_new_samples_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, (note,) = participant(model(path)), participant(model(path)).notes
    told = client.announcement
    monkeypatch.setattr(backend_numpy, "OnnxSession", pytest.fail)
    client.renew(make_data(UNEVEN["a"]))
    assert client.announcement == told
    assert client.notes == [note.replace(" 6 ", " 0 ")]


def test_files_are_read_once_until_they_change(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    real = Path.open

    def counting(self: Path, *args: Any) -> Any:
        read.append(self)
        return real(self, *args)

    monkeypatch.setattr(Path, "open", counting)
    assert len({file_digest(str(path)) for _ in range(2)}) == 1
    assert read == [path]
    write_backbone(path, (1, 4, 4), 13)
    read.clear()
    file_digest(str(path))
    assert read == [path]


def test_features_that_are_large_are_kept_in_a_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = participant(model(path))
    monkeypatch.setattr(backend_numpy, "_MAX_CACHED_BYTES", 10)
    large = participant(model(path))
    assert isinstance(large._data.train_x, np.memmap)
    assert (large._data.train_x == small._data.train_x).all()


def test_features_are_those_of_the_file(path: Path) -> None:
    data = make_data(UNEVEN["a"])
    weight = write_backbone(path, (1, 4, 4), 12)
    expected = np.maximum(data.train_x.reshape(6, 16) @ weight, 0)
    assert np.allclose(participant(model(path))._data.train_x, expected, atol=1e-5)
    write_backbone(path, (1, 4, 4), 12, batch=1)
    assert np.allclose(participant(model(path))._data.train_x, expected, atol=1e-5)


def test_a_client_without_samples_takes_part(path: Path) -> None:
    told = participant(model(path), make_data([])).announcement
    assert (told.num_train, told.num_parameters) == (0, (12 + 1) * 6 + (6 + 1) * 4)


def test_the_provider_is_told(path: Path) -> None:
    (note,) = participant(model(path)).notes
    assert note.startswith("features of 6 new samples by CPUExecutionProvider, onnxruntime ")
    assert participant(model(path)).announcement.computed_by == "onnxruntime, CPUExecutionProvider"


@pytest.mark.parametrize("threads", [1, 3])
def test_a_session_has_the_threads_that_training_has(path: Path, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    opened: list[Any] = []
    real = onnxruntime.InferenceSession

    def opening(file: str, options: Any, **more: Any) -> Any:
        opened.append(options)
        return real(file, options, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", opening)
    spec = make_spec("fedproto", model=model(path), training=TrainingConfig(threads=threads))
    Participant(spec, methods.find("fedproto"), "a", make_data(UNEVEN["a"]), constants_of(spec.model))
    assert {(options.intra_op_num_threads, options.inter_op_num_threads) for options in opened} == {(threads, 1)}


def test_another_backbone_than_the_runs_is_refused(path: Path) -> None:
    constants = constants_of(model(path))
    own = path.with_name("own.onnx")
    write_backbone(own, (1, 4, 4), 12, seed=1)
    digests = file_digest(str(path))[:12], file_digest(str(own))[:12]
    with pytest.raises(ConfigError, match=f"client a: expected the run's frozen backbone of digest {digests[0]}, the "):
        Participant(
            make_spec("fedproto", model=model(own)), methods.find("fedproto"), "a", make_data([0, 1]), constants
        )


def test_weights_beside_the_file_count(path: Path) -> None:
    before = file_digest(str(path))
    path.with_name(f"{path.name}.data").write_bytes(b"weights")
    assert file_digest(str(path)) != before


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("", b"", "path = '': expected the ONNX file of a backbone, got /.*: Is a directory"),
        ("none.onnx", None, "none.onnx: No such file"),
        ("broken.onnx", b"no model", "broken.onnx: expected an ONNX file that onnxruntime can load"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, name: str, content: bytes | None, text: str) -> None:
    if name and content is not None:
        (tmp_path / name).write_bytes(content)
    config = ModelConfig(name="onnx", path=str(tmp_path / name) if name else "")
    with pytest.raises(ConfigError, match=text):
        participant(config)


def test_a_run_without_the_file_is_refused_before_it_starts(tmp_path: Path) -> None:
    for config in (ModelConfig(name="onnx"), ModelConfig(names=["mlp", "onnx"], path=str(tmp_path / "none.onnx"))):
        with pytest.raises(ConfigError, match="expected the ONNX file of a backbone, found no file there"):
            check_file(config)
    check_file(ModelConfig())


def test_samples_of_another_shape_are_refused(path: Path) -> None:
    write_backbone(path, (3, 4, 4), 12)
    with pytest.raises(
        ConfigError, match=r"expected an input for samples of \[1, 4, 4\] float32.*got \['N', 3, 4, 4\]"
    ):
        participant(model(path))


def test_a_provider_that_is_not_there_is_refused_unless_the_cpu_may_do(path: Path) -> None:
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has a GPU")
    with pytest.raises(ConfigError, match="expected CUDAExecutionProvider, onnxruntime falls back to CPUExecutionProv"):
        participant(model(path, provider="cuda"))
    (note,) = participant(model(path, provider="cuda", provider_fallback=True)).notes
    assert "CPUExecutionProvider" in note
