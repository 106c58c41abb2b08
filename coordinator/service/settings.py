"""`service.toml`: what a standing coordinator needs to know of itself, with a default for every key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from coordinator.config import RunConfig, TransportSection, check_transport
from coordinator.metrics.privacy import require_accounting
from coordinator.service.queue import RUNS
from models.settings import check_owner, read_tables, refusal, source_of
from models.spec import IntervalSeconds, Positive, Section, read_section

PAGE_OF_A_RUN = "of a run of a service, `coordinator dashboard RUN` serves the page"


class ServiceSection(Section, frozen=True):
    """`[service]`: where its queue and runs are, how many runs go on at a time, and how often idle clients speak."""

    dir: str = "service"
    max_concurrent_runs: Positive = 1
    idle_heartbeat_s: IntervalSeconds = 15.0
    plugin_dir: str = ""
    """Where the modules of parts named `module:attribute` are, seen from the folder of the file; empty for that."""


class ServiceConfig(Section, frozen=True):
    """All of `service.toml`, checked; its `[transport]` and its folder stand above what a run says, `run.dir` too."""

    service: ServiceSection = ServiceSection()
    transport: TransportSection = TransportSection()

    @property
    def folder(self) -> Path:
        """Where the service keeps everything."""
        return Path(self.service.dir).expanduser()

    @property
    def runs(self) -> Path:
        """Where its run folders are."""
        return self.folder / RUNS

    def at(self, folder: Path) -> ServiceConfig:
        """Return the same settings with another path for its folder."""
        return msgspec.structs.replace(self, service=msgspec.structs.replace(self.service, dir=str(folder)))

    def over(self, config: RunConfig, where: str) -> RunConfig:
        """Return a run's settings with the service's own in their place; `where` is what an error calls the run's.

        Raises:
            ConfigError: a service does not have such a run.
        """
        if config.report.dashboard:
            raise refusal(where, "report.dashboard", config.report.dashboard, f"nothing; {PAGE_OF_A_RUN}")
        if config.run.store == "memory":
            raise refusal(where, "run.store", config.run.store, "'disk', since a service goes on with its runs")
        require_accounting(config.privacy)
        run = msgspec.structs.replace(config.run, dir=str(self.runs))
        transport = msgspec.structs.replace(self.transport, heartbeat_s=config.transport.heartbeat_s)
        return msgspec.structs.replace(config, run=run, transport=transport)


def load(path: Path | None, settings: Sequence[str]) -> ServiceConfig:
    """Read and check a service's settings: the file (none: all defaults), and each `--set table.key=value` over it.

    Raises:
        ConfigError: the text names the key, what was expected and what came.
    """
    where = source_of(path, settings)
    tables = read_tables(path, settings)
    check_owner(tables, ServiceConfig.__struct_fields__, where)
    config = read_section(ServiceConfig, tables, where)
    if not config.service.dir:
        raise refusal(where, "service.dir", config.service.dir, "a folder")
    check_transport(config.transport, where)
    return config
