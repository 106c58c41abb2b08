"""The host of a simulation's clients that its settings ask for."""

from __future__ import annotations

from pathlib import Path

import msgspec

from coordinator.config import RunConfig
from coordinator.run_folder import RunFolder, run_token
from coordinator.virtual.clients import Setup
from coordinator.virtual.commands import Begin
from coordinator.virtual.hosts import ClientHost, OwnClients
from coordinator.virtual.jobs import JobClients
from models.data import ClientParts
from models.shared_data import share
from models.spec import RunSpec


def open_host(
    config: RunConfig, spec: RunSpec, folder: RunFolder, modules: Path, parts: ClientParts, counts_flops: bool
) -> ClientHost:
    """Return who works for the clients; jobs read the data set from the run folder wherever that is possible."""
    section = config.simulation
    setup = Setup(
        spec=spec,
        run=run_token(spec.run_id),
        max_message_bytes=config.transport.max_message_bytes,
        folder=folder.clients_path.resolve(),
        keeps_states=config.run.store == "disk" or section.jobs > 1,
        cache_bytes=section.cache_bytes,
        counts_flops=counts_flops,
    )
    if section.jobs == 1:
        return OwnClients(setup, parts)
    shared = share(parts.dataset, folder.samples_path)
    begin = Begin(
        spec=msgspec.to_builtins(spec),
        run=setup.run,
        max_message_bytes=setup.max_message_bytes,
        folder=str(setup.folder),
        cache_bytes=setup.cache_bytes,
        counts_flops=counts_flops,
        batched=False,
        modules=str(modules.resolve()),
        samples=str(folder.samples_path.resolve()) if shared is not None else "",
        num_constants=0,
    )
    return JobClients(begin, section.jobs, folder.log_path, spec.training.threads, config.round.max_exchange_s)
