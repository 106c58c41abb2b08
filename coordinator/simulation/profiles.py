"""What simulated clients run on: how long work and messages take there, and how often a client is not there.

A client's profile is put together from parts, such as `nano+nb-iot`: a device and its link. Those of `PROFILE_PARTS`
are figures of data sheets and published measurements; own ones are better (`[simulation.own]`, or `--profiles-from`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

import msgspec

from models.spec import ConfigError, NotNegativeReal, Section, Share, nearest

SHARE_OF_PEAK = 1 / 3
"""What training is taken to reach of a peak, as Linpack does on a Raspberry Pi 4 (8 of 24 GFLOPS; Feiereisen, 2022)."""

TRAINING_PASSES = 3
"""Forward passes that a sample's training is worth: one, and a backward one of twice the work."""


class Profile(Section, frozen=True, omit_defaults=True):
    """One client's device and link; what is 0 takes no time.

    Attributes:
        gflops: billions of floating-point operations that its training does in a second.
        samples_per_s: samples that it trains with in a second, whatever the net; takes the place of `gflops`.
        overhead_s: what an exchange takes it beside training.
        up_mbit_s: what its link carries up, in millions of bits a second.
        down_mbit_s: the same down.
        latency_s: how long a message takes beside that, one way.
        availability: how likely it is there when a round opens.
        dropout: how likely it is not heard of again in an exchange whose task it has taken.
    """

    gflops: NotNegativeReal = 0.0
    samples_per_s: NotNegativeReal = 0.0
    overhead_s: NotNegativeReal = 0.0
    up_mbit_s: NotNegativeReal = 0.0
    down_mbit_s: NotNegativeReal = 0.0
    latency_s: NotNegativeReal = 0.0
    availability: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    dropout: Share = 0.0

    def work_s(self, num_samples: int, flops: int) -> float:
        """Return how long an exchange takes in which so many samples are trained with, each of so many operations."""
        if self.samples_per_s:
            return self.overhead_s + num_samples / self.samples_per_s
        if self.gflops:
            return self.overhead_s + TRAINING_PASSES * num_samples * flops / (1e9 * self.gflops)
        return self.overhead_s

    def up_s(self, num_bytes: int) -> float:
        """Return how long so many bytes take up."""
        return self.latency_s + _seconds(num_bytes, self.up_mbit_s)

    def down_s(self, num_bytes: int) -> float:
        """Return how long so many bytes take down."""
        return self.latency_s + _seconds(num_bytes, self.down_mbit_s)


class ProfilePart(NamedTuple):
    """A profile and where its figures are from."""

    profile: Profile
    source: str


PROFILE_PARTS = {
    "workstation": ProfilePart(
        Profile(gflops=35_600 * SHARE_OF_PEAK),
        "GeForce RTX 3090: 35.6 TFLOPS of float32 (NVIDIA Ampere GA102 whitepaper)",
    ),
    "orin": ProfilePart(
        Profile(gflops=5_300 * SHARE_OF_PEAK),
        "Jetson AGX Orin 64 GB: 5.3 TFLOPS of float32 (NVIDIA Jetson AGX Orin series technical brief)",
    ),
    "nano": ProfilePart(
        Profile(gflops=236 * SHARE_OF_PEAK),
        "Jetson Nano: 472 GFLOPS of float16, half of that of float32 (NVIDIA Jetson Nano data sheet)",
    ),
    "raspberry-pi": ProfilePart(
        Profile(gflops=48 * SHARE_OF_PEAK),
        "Raspberry Pi 4: 4 cores of 1.5 GHz, 8 float32 operations a cycle (Arm Cortex-A72 software optimization guide)",
    ),
    "lte": ProfilePart(
        Profile(up_mbit_s=6.0, down_mbit_s=13.0, latency_s=0.035),
        "medians of 13 and 6 Mbit/s, 70 ms there and back (Huang et al., 4G LTE networks, MobiSys 2012)",
    ),
    "nb-iot": ProfilePart(
        Profile(up_mbit_s=0.0625, down_mbit_s=0.02615, latency_s=0.8),
        "category NB1: 1,000 bits in 16 ms up, 680 in 26 ms down (3GPP TS 36.213, release 13); 1.6 s there and back",
    ),
}  # fmt: skip
"""What a profile may be put together from, beside a run's own parts."""


def put_together(name: str, own: Mapping[str, Profile]) -> Profile:
    """Return the profile of a name: its parts, joined by `+`, of which a later one overrides what it sets.

    Raises:
        ConfigError: there is no such part.
    """
    known = {**{part: made.profile for part, made in PROFILE_PARTS.items()}, **own}
    merged: dict[str, float] = {}
    for part in name.split("+"):
        if part not in known:
            raise ConfigError(f"unknown part {part!r} of profile {name!r}; {nearest(part, known)}")
        merged |= msgspec.to_builtins(known[part])
    return msgspec.convert(merged, Profile)


def _seconds(num_bytes: int, mbit_s: float) -> float:
    return 8 * num_bytes / (1e6 * mbit_s) if mbit_s else 0.0
