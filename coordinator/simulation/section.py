"""`[simulation]`: how `coordinator simulate` does its work, and what its clients are taken to run on."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from coordinator.simulation.profiles import Profile, put_together
from models.spec import NotNegativeReal, Positive, Section


class SimulationSection(Section, frozen=True):
    """`[simulation]`; no other command heeds it, and of its keys only profiles and `batched` change any result.

    Jobs are processes of this machine; with Ray, work goes wherever that has room.
    """

    executor: Literal["own", "ray"] = "own"
    ray_address: str = ""
    ray_gpus: NotNegativeReal = 0.0
    jobs: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    batched: bool | Literal["auto"] = False
    cache_bytes: Positive = 512 * 1024 * 1024
    profiles: list[str] = []
    coordinator_s: NotNegativeReal = 0.0
    own: dict[str, Profile] = {}

    def fleet_profiles(self) -> list[Profile]:
        """Return the profiles that clients are given in turn.

        Raises:
            ConfigError: one of them is unknown.
        """
        return [put_together(name, self.own) for name in self.profiles]
