"""What a client computes with, where what that needs is not there."""

import sys

import pytest

from models import methods
from models.backend import backend_of
from models.spec import ConfigError
from tests.models.small_run import make_spec


def test_a_missing_torch_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "models.backend_torch", None)
    method = methods.find("fedproto")
    with pytest.raises(ConfigError, match=r"\[model\] name = .* needs torch.*pip install 'protoedge\[train\]'"):
        backend_of(make_spec("fedproto"), method, method.config(), {})
