"""The host of a simulation's clients that its settings ask for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from coordinator.aggregator.half import Constant
from coordinator.config import RunConfig
from coordinator.loopback_clients import client_names
from coordinator.simulation.clients import Setup
from coordinator.simulation.commands import Begin
from coordinator.simulation.held import HeldClients
from coordinator.simulation.hosts import ClientHost, OwnClients, constants_of
from coordinator.simulation.jobs import JobClients
from coordinator.store.run_folder import RunFolder, run_token
from models.data import ClientParts
from models.methods import find
from models.methods.batching import GROUP_SIZE
from models.shared_data import share
from models.spec import RunSpec


def setup_of(config: RunConfig, spec: RunSpec, folder: RunFolder, counts_flops: bool) -> Setup:
    """Return what is the same for all clients."""
    return Setup(
        spec=spec,
        run=run_token(spec.run_id),
        max_message_bytes=config.transport.max_message_bytes,
        folder=folder.clients_path.resolve(),
        keeps_states=config.run.store == "disk" or config.simulation.jobs > 1,
        cache_bytes=config.simulation.cache_bytes,
        counts_flops=counts_flops,
        batched=config.simulation.batched is True,
    )


def settle_batched(config: RunConfig, setup: Setup, parts: ClientParts, constants: Sequence[Constant]) -> RunConfig:
    """Return the settings with an answer to `batched = "auto"`, by a short measurement of the first client's net."""
    if config.simulation.batched != "auto":
        return config
    names = client_names(config.data.num_clients)
    net = config.model.name_for(0)
    alike = [name for index, name in enumerate(names) if config.model.name_for(index) == net]
    held = HeldClients(setup.spec, names, parts, constants_of(constants), setup.cache_bytes)
    exchanges = range(len(find(setup.spec.method).exchanges))
    can = any(held.show(alike[0]).can_batch(exchange) for exchange in exchanges)
    batched = can and len(alike) > 1 and _pays_off(held, alike)
    section = msgspec.structs.replace(config.simulation, batched=batched)
    return msgspec.structs.replace(config, simulation=section)


def _pays_off(held: HeldClients, clients: Sequence[str]) -> bool:
    from models.batched import pays_off

    participants = [held.show(client) for client in clients[:GROUP_SIZE]]
    return pays_off([participant.client for participant in participants], participants[0].client.spec.training)


def open_host(config: RunConfig, setup: Setup, folder: RunFolder, modules: Path, parts: ClientParts) -> ClientHost:
    """Return who works for the clients; jobs read the data set from the run folder wherever that is possible."""
    section, threads, answer_s = config.simulation, config.training.threads, config.round.max_exchange_s
    if section.executor == "ray":
        from coordinator.simulation.ray_clients import RayClients

        return RayClients(setup, parts, modules, section, answer_s)
    if section.jobs == 1:
        return OwnClients(setup, parts)
    samples = folder.samples_path if share(parts.dataset, folder.samples_path) is not None else None
    begin = Begin.of(setup, modules, samples)
    return JobClients(begin, section.jobs, folder.log_path, threads, answer_s)
