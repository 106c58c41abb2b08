"""Golden frames: one file for each message under tests/golden/<protocol version>/, compared both ways.

`python -m tests.wire.test_golden` from the repository root writes the files that do not exist yet and never touches one
that does: a frame that changed is a change of the protocol, not of a file.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from wire import messages
from wire.encoding import decode, encode, pack, unpack
from wire.framing import joined, parted
from wire.header import unpack_header
from wire.payload import Payload, Tensor
from wire.tensors import CODEC_NAMES
from wire.version import PROTOCOL_VERSION

FOLDER = Path(__file__).parent.parent / "golden" / str(PROTOCOL_VERSION)
OLDER = sorted(path for path in FOLDER.parent.glob("*/*.json") if path.parent != FOLDER)

PROTOTYPES = Payload(
    {
        "prototypes": Tensor("f32", np.array([[0.5, -1.25, 3e-40], [1e30, 0.0, -0.0]], np.float32)),
        "counts": Tensor("u32", np.array([31, 4_000_000_000], np.uint32)),
        "classes": Tensor("u16", np.array([0, 65_535], np.uint16)),
    }
)
EVERY_CODEC = Payload(
    {
        "u8": Tensor("u8", np.array([[1, 0, 255]], np.uint8)),
        "f16": Tensor("f16", np.array([0.1, 65_504.0])),
        "bf16": Tensor("bf16", np.array([0.1, -3.0])),
        "u16": Tensor("u16", np.array([], np.uint16)),
        "f64": Tensor("f64", np.array(0.1)),
        "i64": Tensor("i64", np.array([-1, 2**62])),
        "f32": Tensor("f32", np.arange(4.0).reshape(2, 1, 2)),
        "u32": Tensor("u32", np.array([7])),
        "i8": Tensor("i8", np.array([[0.5, 0.5, 0.5], [-1.0, 0.3, 1.55]])),
    },
    {"first": True, "scale": 0.25, "stage": "tune", "step": -3},
)
FILLER = Payload({"filler": Tensor("u8", np.zeros(3, np.uint8))})
SPEC = {"run_id": "demo-1", "seed": 0, "num_rounds": 10, "method": "fedproto", "classes": ["0", "1", "Zürich"]}

VITALS = messages.Vitals(76_500, 71_200, 3, 2_100_000_000, 1_788_000_000.25)

SAMPLES: dict[str, tuple[messages.Message, Payload | None]] = {
    "Hello": (messages.Hello((1, 4), "client-0", 2**40 + 7, ["5f2b"], {"cpu": "aarch64", "ram_bytes": 2**33}), None),
    "Welcome": (
        messages.Welcome(7, "demo-1", 10.0, 67_108_864, SPEC, ["5f2b", "91ac"], ["masks", "every_codec"]),
        None,
    ),
    "Constant": (messages.Constant(7, "every_codec", "91ac"), EVERY_CODEC),
    "Ready": (messages.Ready(7, 337, 112, [34, 0, 303], 50, 21_840, 0, [11, 0, 101], 3, "torch, cpu", 4), None),
    "Task": (messages.Task(7, 1, 0, 0, 0), Payload()),
    "Progress": (messages.Progress(7, 3, 0, 11, 22), None),
    "Offer": (messages.Offer(7, 3, 1, 44_700_000), None),
    "Grant": (messages.Grant(7, 3, 1), None),
    "Update": (
        messages.Update(7, 3, 0, [messages.Evaluation(3, 112, {0: 107, 1: 106, 2: 99})]),
        PROTOTYPES,
    ),
    "Ack": (messages.Ack(7, 3, 0), None),
    "Refusal": (messages.Refusal("stale", "round 2 is over, the current round is 3", False, 7, 3, 0), None),
    "Ping": (messages.Ping(30_900_000, 512_000_000, "a window (22:00-06:00)", VITALS), None),
    "Pong": (messages.Pong(), None),
    "Finish": (messages.Finish(7, "finished", ""), None),
    "Goodbye": (messages.Goodbye("finished", 31_200_000, 530_000_000, VITALS), None),
    "Sounding": (messages.Sounding((1, 4), 4, True), FILLER),
    "Echo": (messages.Echo((1, 4), 4, "client-0", 1_798_761_600.5), FILLER),
    "Standby": (messages.Standby(15.0, "demo-1"), None),
    "Decline": (messages.Decline(7, "unknown method 'fedprot'"), None),
}


def frames_of(name: str) -> list[str]:
    message, payload = SAMPLES[name]
    frames = encode(message, None if payload is None else pack(payload))
    return [bytes(frame).hex() for frame in frames]


def parts_of(name: str) -> list[str]:
    return [bytes(part).hex() for part in joined([bytes.fromhex(frame) for frame in frames_of(name)], True)]


def golden(name: str, what: str = "frames") -> list[str]:
    content: list[str] = json.loads((FOLDER / f"{name}.json").read_text())[what]
    return content


def test_every_message_has_a_golden_file_and_no_file_is_left_over() -> None:
    names = {kind.__name__ for kind in messages.NETWORK.values()}
    assert names == SAMPLES.keys() == {path.stem for path in FOLDER.iterdir()}


@pytest.mark.parametrize("name", SAMPLES)
def test_encoding_gives_the_golden_frames(name: str) -> None:
    assert frames_of(name) == golden(name)
    assert parts_of(name) == golden(name, "joined")


@pytest.mark.parametrize("name", SAMPLES)
def test_the_golden_parts_are_those_of_the_frames(name: str) -> None:
    parts = [bytes.fromhex(part) for part in golden(name, "joined")]
    assert [frame.hex() for frame in parted(parts, 1000)] == golden(name)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_golden_frames_decode_to_the_message(name: str) -> None:
    expected, payload = SAMPLES[name]
    message, packed = decode([bytes.fromhex(frame) for frame in golden(name)])
    assert message == expected
    if payload is None:
        assert packed is None
        return
    assert packed is not None
    came = unpack(packed)
    assert came.scalars == payload.scalars
    assert {name: tensor.codec for name, tensor in came.tensors.items()} == {
        name: tensor.codec for name, tensor in payload.tensors.items()
    }
    for array_name, array in payload.arrays.items():
        tolerance = {"f16": 2**-11, "bf16": 2**-8}.get(array_name, 0.0)
        half_a_step = 2.55 / 255 / 2 if array_name == "i8" else 0.0
        np.testing.assert_allclose(came.arrays[array_name], array, tolerance, half_a_step * 1.000001, strict=False)
        assert came.arrays[array_name].shape == array.shape


def test_the_frames_of_older_versions_are_kept() -> None:
    assert {path.parent.name for path in OLDER} == {"1.0", "1.1", "1.2", "1.3", "1.4", "1.5"}


@pytest.mark.parametrize("path", OLDER, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_older_golden_frames_decode_and_are_encoded_as_ever_but_for_new_fields(path: Path) -> None:
    frames = [bytes.fromhex(frame) for frame in json.loads(path.read_text())["frames"]]
    message, packed = decode(frames)
    assert type(message).__name__ == path.stem
    again = encode(message, None if packed is None else pack(unpack(packed)))
    (tag, old_fields, *old_payload), (_, fields, *payload) = unpack_header(frames[0]), unpack_header(again[0])
    assert (tag, payload) == (message.tag, old_payload)
    assert fields[: len(old_fields)] == old_fields
    has_i8 = packed is not None and any(CODEC_NAMES[header.codec] == "i8" for header in packed.headers)
    if not has_i8:  # rows of i8 come back to half a step, so their scale may differ by a bit
        assert again[1:] == frames[1:]


def test_the_newest_golden_folder_is_that_of_the_protocol_version() -> None:
    versions = [tuple(int(part) for part in path.name.split(".")) for path in FOLDER.parent.iterdir()]
    assert max(versions) == tuple(PROTOCOL_VERSION)


def write_missing() -> None:
    """Write the golden files of this protocol version that do not exist yet."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in SAMPLES:
        path = FOLDER / f"{name}.json"
        if not path.exists():
            content = {"message": name, "frames": frames_of(name), "joined": parts_of(name)}
            path.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    write_missing()
