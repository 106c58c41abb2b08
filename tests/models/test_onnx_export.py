"""Exported models: the same classes and scores as the client's own, by every rule."""

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from models import methods, predictor
from models.client_states import ClientStates
from models.data import ClientData
from models.linear_rules import LinearRule, nearest_prototype
from models.nets.onnx_session import OnnxSession
from models.onnx_export import FEATURES, METADATA_KEY, quantize
from models.participant import Participant
from models.predictor import Predictor
from models.spec import ConfigError, DataConfig, ModelConfig, TasksConfig
from tests.models.federation import Federation
from tests.models.onnx_files import write_backbone
from tests.models.small_run import UNEVEN, make_data, make_spec

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

DATA = make_data([0, 1, 2, 0, 1, 2, 2, 0, 0], seed=3)
SHAPE = (1, 4, 4)


def trained(method: str, model: ModelConfig, **changes: Any) -> Participant:
    """A client after two rounds among others, with what came down last."""
    data = {name: make_data(labels) for name, labels in UNEVEN.items()}
    run = Federation(make_spec(method, model=model, **changes), data)
    for number in (1, 2):
        run.round(number)
    run.final_evaluation()
    return run.clients["a"]


def frozen(folder: Path, feature_dim: int = 6, batch: int | str = "N") -> ModelConfig:
    write_backbone(folder / "backbone.onnx", SHAPE, 12, batch=batch)
    return ModelConfig(name="onnx", path=str(folder / "backbone.onnx"), feature_dim=feature_dim)


@pytest.mark.parametrize(("method", "feature_dim", "batch"), [("fedproto", 6, "N"), ("headcal", 12, 1)])
def test_every_rule_predicts_as_the_client_does(
    tmp_path: Path, method: str, feature_dim: int, batch: int | str
) -> None:
    client: Any = trained(method, frozen(tmp_path, feature_dim, batch))
    path = tmp_path / "model.onnx"
    client.export(path, SHAPE)
    made = Predictor(path)
    rules = methods.find(method).rules
    assert (made.rules, made.labels, made.shape) == (list(rules), ["0", "1", "2", "3"], SHAPE)
    assert made.default_rule == methods.find(method).default_rule
    prepared = client._backend.prepared("a", DATA)
    expected = client._client.predictions(prepared.test_x, rules)
    assert {rule: made.predict(DATA.test_x, rule).classes.tolist() for rule in rules} == {
        rule: said.tolist() for rule, said in expected.items()
    }
    weight, bias = client._client.head_arrays()
    features, logits = OnnxSession(path).run(DATA.test_x, [FEATURES, "head"])
    assert np.allclose(features, client._client.context.net.features(prepared.test_x), atol=1e-4)
    assert np.allclose(logits, features @ weight.T + bias, atol=1e-4)


def counting(input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> Any:
    """A net that asks how many samples there are, which an export then takes for fixed."""
    from models.nets.mlp import Mlp

    class Counted(Mlp):
        def features(self, x: Any) -> Any:
            return super().features(x) + x.new_zeros(len(x), feature_dim)

    return Counted(input_shape, feature_dim, num_classes)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cnn", "tests.models.test_onnx_export:counting"])
def test_a_torch_net_is_exported_with_all_its_rules(tmp_path: Path, name: str) -> None:
    pytest.importorskip("onnxscript")
    import torch

    client = trained("fedproto", ModelConfig(name=name, feature_dim=8, patch_size=2))
    client.export(tmp_path / "model.onnx", SHAPE)
    made, net = Predictor(tmp_path / "model.onnx"), client._client.context.net
    net.eval()
    with torch.no_grad():
        expected = net(torch.from_numpy(DATA.test_x)).numpy()
    (logits,) = OnnxSession(tmp_path / "model.onnx").run(DATA.test_x, ["head"])
    assert np.allclose(logits, expected, atol=1e-4)
    said = client._client.predictions(torch.from_numpy(DATA.test_x), made.rules)
    assert {rule: made.predict(DATA.test_x, rule).classes.tolist() for rule in said} == {
        rule: predicted.tolist() for rule, predicted in said.items()
    }


def test_the_model_of_a_run_with_tasks_is_that_of_the_last_one(tmp_path: Path) -> None:
    client = trained("fedproto", frozen(tmp_path), tasks=TasksConfig(num_tasks=2), num_rounds=2)
    path, x = tmp_path / "model.onnx", DATA.test_x
    client.export(path, SHAPE)
    later = Participant(client._spec, client._method, "a", make_data(UNEVEN["a"]), client.client.context.constants)
    later.load(client.arrays())
    later.export(tmp_path / "later.onnx", SHAPE)
    made, again = Predictor(path), Predictor(tmp_path / "later.onnx")
    assert again.about == made.about
    assert again.about["rules"]["local_prototype"] == [2]
    prepared = client._backend.prepared("a", DATA)
    expected = client.client.predictions(prepared.test_x, made.rules)
    for rule in made.rules:
        assert again.predict(x, rule).classes.tolist() == expected[rule].tolist()


@pytest.mark.slow
def test_a_net_for_texts_is_exported_for_token_ids(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    import torch

    y = np.array([0, 1, 2, 0, 1, 2, 2, 0, 0])
    x = np.random.default_rng(3).integers(0, 9, size=(len(y), 5)) + 9 * y[:, None]
    x[0, 2:], x[1] = 0, 0  # a text that ends early, and one without tokens
    data = ClientData(x, y, x, y, [str(label) for label in range(4)])
    model = ModelConfig(name="fasttext", feature_dim=6, vocab_size=20)
    run = Federation(make_spec("fedproto", model=model, data=DataConfig(tokens=True)), {"a": data})
    run.round(1)
    run.final_evaluation()
    client = run.clients["a"]
    client.export(tmp_path / "model.onnx", (5,))
    made = Predictor(tmp_path / "model.onnx")
    assert made.rules == ["head", "local_prototype", "global_prototype"]
    said = client.client.predictions(torch.from_numpy(x).to(client.client.context.device), made.rules)
    for rule in made.rules:
        assert made.predict(x, rule).classes.tolist() == said[rule].tolist()


def test_int8_keeps_what_is_to_be_known_and_most_predictions(tmp_path: Path) -> None:
    client = trained("fedproto", frozen(tmp_path))
    client.export(tmp_path / "model.onnx", SHAPE)
    quantize(tmp_path / "model.onnx", tmp_path / "small.onnx", DATA.train_x)
    whole, small = (Predictor(tmp_path / name) for name in ("model.onnx", "small.onnx"))
    assert small.about == whole.about
    same = (
        whole.predict(DATA.test_x, "local_prototype").classes == small.predict(DATA.test_x, "local_prototype").classes
    )
    assert same.mean() > 0.7
    head = OnnxSession(tmp_path / "small.onnx").run(DATA.test_x, ["head"])[0]
    assert (head != OnnxSession(tmp_path / "model.onnx").run(DATA.test_x, ["head"])[0]).any()


@pytest.mark.parametrize("earlier", [b"", b"of an earlier run"])
def test_int8_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: bytes) -> None:
    def fail(*files: object, **told: object) -> None:
        raise RuntimeError("no such operator")

    client, (whole, small) = trained("fedproto", frozen(tmp_path)), (tmp_path / "model.onnx", tmp_path / "small.onnx")
    client.export(whole, SHAPE)
    if earlier:
        small.write_bytes(earlier)
    monkeypatch.setattr("onnxruntime.quantization.quantize_static", fail)
    told = r"model\.onnx is written, but onnxruntime makes no int8 model of this net: RuntimeError: no such operator"
    with pytest.raises(ConfigError, match=told):
        quantize(whole, small, DATA.train_x)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".onnx"] == []
    assert (small.read_bytes() if small.exists() else b"") == earlier


def test_an_export_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_up(path: Path, content: bytes) -> None:
        with path.open("wb") as file:
            file.write(content[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    client, path = trained("fedproto", frozen(tmp_path)), tmp_path / "model.onnx"
    path.write_bytes(b"of an earlier run")
    monkeypatch.setattr(Path, "write_bytes", fill_up)
    with pytest.raises(ConfigError, match=r"model\.onnx: expected a file to write a model to: No space left on device"):
        client.export(path, SHAPE)
    assert path.read_bytes() == b"of an earlier run"
    assert {path.name for path in tmp_path.iterdir()} == {"backbone.onnx", "model.onnx"}


def test_measures_are_probabilities_and_distances(tmp_path: Path) -> None:
    client: Any = trained("fedproto", frozen(tmp_path))
    client.export(tmp_path / "model.onnx", SHAPE)
    made, x = Predictor(tmp_path / "model.onnx"), DATA.test_x
    features, logits = OnnxSession(tmp_path / "model.onnx").run(x, [FEATURES, "head"])
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.allclose(made.predict(x, "head").measures, shares.max(axis=1), atol=1e-5)
    prototypes = client._client._prototypes_CD
    distances = np.linalg.norm(features[:, None] - prototypes, axis=2).min(axis=1)
    assert np.allclose(made.predict(x, "global_prototype").measures, distances, atol=1e-3)


def test_a_rule_without_any_class_is_left_out(tmp_path: Path) -> None:
    spec = make_spec("fedproto", model=frozen(tmp_path))
    client = Participant(spec, methods.find("fedproto"), "a", make_data([]))
    client.load(ClientStates(None, "run").begin(1, 0, 0))
    client.export(tmp_path / "model.onnx", SHAPE)
    made = Predictor(tmp_path / "model.onnx")
    assert (made.rules, made.default_rule) == (["head"], "head")
    with pytest.raises(ConfigError, match="unknown rule 'global_prototype'; known: head"):
        made.check_rule("global_prototype")


def test_another_onnx_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"backbone.onnx: expected a model that `edge-client export` wrote"):
        Predictor(Path(frozen(tmp_path).path))


@pytest.mark.parametrize("text", ["{", "null", "{}", "[" * 100_000])
def test_a_model_whose_own_words_are_damaged_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(predictor, "OnnxSession", lambda *told: SimpleNamespace(metadata={METADATA_KEY: text}))
    with pytest.raises(ConfigError, match=r"small\.onnx: expected a model that `edge-client export` wrote: "):
        Predictor(Path("small.onnx"))


def test_the_nearest_prototype_is_a_linear_rule() -> None:
    random = np.random.default_rng(0)
    features, prototypes = random.normal(size=(50, 3)), random.normal(size=(4, 3)).astype(np.float32)
    classes = np.array([1, 3, 4, 8])
    expected = classes[((features[:, None] - prototypes) ** 2).sum(axis=2).argmin(axis=1)]
    assert nearest_prototype(prototypes, classes).predict(features).tolist() == expected.tolist()
    assert LinearRule(prototypes[:0], np.zeros(0), classes[:0]).predict(features).tolist() == [-1] * 50
