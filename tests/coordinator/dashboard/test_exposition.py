"""A run's figures as Prometheus reads them."""

from __future__ import annotations

import dataclasses

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families

from coordinator.dashboard.exposition import exposition
from coordinator.report.reading import Run


def test_the_figures_are_the_summarys(run: Run) -> None:
    families = text_string_to_metric_families(exposition(run)[0].decode())
    found = {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}
    for level in ("payload", "encoded", "wire"):
        assert found["protoedge_uplink_bytes_total", level] == run.summary["uplink"][f"{level}_bytes"]
    assert found["protoedge_accuracy_ratio", "head"] == run.summary["accuracy_by_rule"]["head"]["last"]
    assert found["protoedge_updates_total", "accepted"] == 6
    assert found["protoedge_last_round_seconds", "round"] == 6.0
    assert found["protoedge_peak_resident_memory_bytes", "client"] == 40 * 2**20
    assert ("protoedge_peak_resident_memory_bytes", "trainer") not in found  # it is not known


def test_a_clients_connections_and_energy_are_told_by_client(run: Run) -> None:
    link = {"up_bytes": 70, "down_bytes": 80, "num_retransmits": 2, "rtt_s": 0.01}
    clients = {"ann": {"energy_j": 31.0}, "bob": {"energy_j": None}}
    told = dataclasses.replace(run, summary={**run.summary, "wire": {"clients": {"ann": link}}, "clients": clients})
    families = text_string_to_metric_families(exposition(told)[0].decode())
    found = {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}
    assert found["protoedge_client_up_bytes_total", "ann"] == 70
    assert found["protoedge_client_retransmits_total", "ann"] == 2
    assert found["protoedge_client_rtt_seconds", "ann"] == 0.01
    assert found["protoedge_client_energy_joules_total", "ann"] == 31.0
    assert ("protoedge_client_energy_joules_total", "bob") not in found  # it is not known
