"""Label maps that can travel, and those that cannot."""

from __future__ import annotations

import re

import pytest

from coordinator.config import load
from coordinator.label_map import check_label_map
from models.spec import ConfigError, RunSpec, TasksConfig
from tests.models.small_run import make_spec
from wire.encoding import decode, encode
from wire.limits import MAX_CLASSES
from wire.messages import Ready


def spec_of(num_classes: int, name: str = "{}", num_tasks: int = 1) -> RunSpec:
    classes = [name.format(label) for label in range(num_classes)]
    return make_spec("fedproto", classes=classes, num_rounds=num_tasks, tasks=TasksConfig(num_tasks))


def test_as_many_classes_as_a_client_can_tell_its_samples_of_are_taken() -> None:
    check_label_map(spec_of(MAX_CLASSES))
    ready = Ready(1, 2**32 - 1, 2**32 - 1, [65_535] * MAX_CLASSES, 512, 2**40, 2**40, [65_535] * MAX_CLASSES)
    assert decode(encode(ready)) == (ready, None)


def test_more_are_refused_wherever_a_label_map_becomes_known() -> None:
    told = (
        f"[data] dataset = 'digits' has {MAX_CLASSES + 1} classes: expected at most {MAX_CLASSES}, because a client "
        "tells in one header how many samples of each it has; make fewer classes of them"
    )
    with pytest.raises(ConfigError, match=re.escape(told)):
        load(None, []).spec("", [str(label) for label in range(MAX_CLASSES + 1)])


def test_names_that_are_too_long_together_are_refused_with_their_size() -> None:
    check_label_map(spec_of(2_000, name="a class whose name is this long, number {}"))
    said = r"20000 classes.*Welcome: header: expected at most 262144 bytes, got 9\d{5}; .*shorter names"
    with pytest.raises(ConfigError, match=said):
        check_label_map(spec_of(20_000, name="a class whose name is this long, number {}"))


def test_what_heads_say_of_classes_in_tasks_must_fit_too() -> None:
    check_label_map(spec_of(20_000, num_tasks=20))
    with pytest.raises(ConfigError, match=r"32000 classes.*Update: header: expected at most 262144 bytes, got 280915"):
        check_label_map(spec_of(32_000, num_tasks=400))
