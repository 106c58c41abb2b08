"""The reading of the source tree that the rules stand on."""

import ast

from tests.architecture.source import PACKAGES, imported_names, is_within, method_folders, modules


def test_all_four_packages_are_found() -> None:
    names = {module.name for module in modules()}
    assert names >= {*PACKAGES, "wire.payload", "models.methods.api", "coordinator.rounds", "edge_client.session"}


def test_methods_are_found_by_their_folders() -> None:
    assert set(method_folders()) >= {"local_only", "fedavg", "fedproto"}


def test_imports_are_found_at_any_depth() -> None:
    tree = ast.parse("import a.b, c\ndef f():\n    from d.e import g as h\n")
    assert list(imported_names(tree)) == ["a.b", "c", "d.e.g"]


def test_a_longer_name_is_not_within_a_package() -> None:
    assert is_within("wire.tensors", "wire")
    assert is_within("wire", "wire")
    assert not is_within("wireless", "wire")
