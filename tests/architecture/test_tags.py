"""The tags of all messages, of the network and of the pipes: no two messages have one."""

import ast
from collections.abc import Iterator

from tests.architecture.source import modules

TEXT = "class A(Message):\n    tag: ClassVar[int] = 96\nclass B(Message):\n    size: int\n    tag: ClassVar[int] = 96"


def tags(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the tag and the name of each message in a syntax tree."""
    for kind in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for field in kind.body:
            if isinstance(field, ast.AnnAssign) and ast.unparse(field.target) == "tag" and field.value is not None:
                yield int(ast.literal_eval(field.value)), kind.name


def repeated(found: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return what has a tag that another has too."""
    numbers = [tag for tag, _ in found]
    return [(tag, name) for tag, name in found if numbers.count(tag) > 1]


def test_no_two_messages_have_one_tag() -> None:
    found = [(tag, f"{module.name}.{name}") for module in modules() for tag, name in tags(module.tree)]
    assert len(found) > 40
    assert repeated(found) == []


def test_a_tag_that_two_have_is_found() -> None:
    assert repeated([*tags(ast.parse(TEXT)), (97, "C")]) == [(96, "A"), (96, "B")]
