"""Tests of the mathematics run on one thread; those of torch are left out where only the base install is there."""

from importlib.util import find_spec
from pathlib import Path

collect_ignore: list[str] = []

if find_spec("torch") is None:
    here = Path(__file__).parent
    needing_torch = ("torch", "models.nets.net", "models.participant", "tests.models.federation")
    imports = tuple(f"{word} {module}" for module in needing_torch for word in ("import", "from"))
    collect_ignore = [
        str(path.relative_to(here))
        for path in here.rglob("test_*.py")
        if any(line.startswith(imports) for line in path.read_text().splitlines())
    ]
else:
    import torch

    torch.set_num_threads(1)
