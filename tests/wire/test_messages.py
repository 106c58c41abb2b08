"""The message records: the rules of evolution that the records themselves must obey."""

import msgspec
import pytest

from wire.messages import NETWORK, Evaluation, Message, RefusalCode, Vitals

KINDS = sorted(NETWORK.values(), key=lambda kind: kind.tag)


def test_tags_are_unique_and_below_those_of_internal_pipes() -> None:
    assert [kind.tag for kind in KINDS] == sorted(NETWORK)
    assert all(0 < tag < 64 for tag in NETWORK)


def test_every_network_message_of_the_module_is_in_the_table() -> None:
    defined = {kind for kind in Message.__subclasses__() if kind.__module__ == Message.__module__}
    assert defined == set(KINDS)


@pytest.mark.parametrize("kind", [*KINDS, Evaluation, Vitals])
def test_records_are_frozen_and_travel_by_position(kind: type[msgspec.Struct]) -> None:
    config = kind.__struct_config__
    assert config.frozen
    assert config.array_like
    assert not config.forbid_unknown_fields


@pytest.mark.parametrize("kind", [*KINDS, Evaluation, Vitals])
def test_fields_with_defaults_stand_at_the_end(kind: type[msgspec.Struct]) -> None:
    required = [field.required for field in msgspec.structs.fields(kind)]
    assert required == sorted(required, reverse=True)


def test_the_messages_that_carry_a_payload() -> None:
    carriers = {"Constant", "Task", "Update", "Sounding", "Echo"}
    assert {kind.__name__ for kind in KINDS if kind.carries_payload} == carriers


def test_refusal_codes_are_unique() -> None:
    codes = [code for name, code in vars(RefusalCode).items() if name.isupper()]
    assert len(set(codes)) == len(codes)
