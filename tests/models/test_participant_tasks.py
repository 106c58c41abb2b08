"""A client in a run whose classes come in tasks."""

from typing import Any

from models import methods
from models.checkpoint import state_hash
from models.spec import EvaluationConfig, PrivacyConfig, TasksConfig
from models.tasks import counters
from tests.models.federation import Federation
from tests.models.small_run import UNEVEN, make_data, make_spec

TWO_TASKS = {"tasks": TasksConfig(num_tasks=2), "num_rounds": 4}


def federation(method: str = "fedavg", **changes: Any) -> Federation:
    spec = make_spec(method, **{**TWO_TASKS, **changes})
    return Federation(spec, {name: make_data(labels) for name, labels in UNEVEN.items()})


def counted(run: Federation, outcome: Any) -> list[tuple[int, int, dict[str, int]]]:
    names = counters(run.method.rules, run.spec.plan)
    return [
        (done.round, done.num_test, {names[index]: count for index, count in done.correct.items()})
        for done in outcome.evaluations
    ]


def test_a_client_trains_on_its_tasks_samples_alone() -> None:
    run = federation()
    trained = [{name: up.arrays["num_train"].item() for name, up in run.round(number)[0].uplinks.items()}
               for number in (1, 3)]  # fmt: skip
    assert trained == [{"a": 5, "b": 2, "c": 0, "d": 0}, {"a": 1, "b": 3, "c": 1, "d": 0}]


def test_what_a_new_task_brings_is_told_once() -> None:
    run = federation()
    notes = [run.round(number)[0].outcomes["a"].notes for number in (1, 2, 3, 4)]
    assert [len(told) for told in notes] == [1, 0, 1, 0]
    assert notes[2][0].startswith("task 2 of 2, classes 2 to 3: 1 train samples")
    assert notes[2][0].endswith("; 5 of earlier tasks are left aside")


def test_a_model_is_tested_on_the_classes_seen_so_far_and_task_by_task() -> None:
    run = federation()
    for number in (1, 2):
        run.round(number)
    done = run.round(3)[0].outcomes["a"]
    (base, base_tested, base_counts), (own, own_tested, own_counts) = counted(run, done)
    assert (base, base_tested, own, own_tested) == (2, 5, 3, 6)
    assert base_counts["tested@1"] == 5
    assert base_counts["global_head"] == base_counts["global_head@1"]
    assert "tested@2" not in base_counts
    assert (own_counts["tested@1"], own_counts["tested@2"]) == (5, 1)
    assert own_counts["head"] == own_counts.get("head@1", 0) + own_counts.get("head@2", 0)
    assert sum(count for name, count in own_counts.items() if name.startswith("said@")) == 6


def test_no_class_is_predicted_before_its_task() -> None:
    run = federation()
    counts = counted(run, run.round(1)[0].outcomes["a"])[-1][2]
    assert {name for name in counts if name.startswith("said@")} <= {"said@0", "said@1"}


def test_the_last_round_of_a_task_is_always_tested() -> None:
    run = federation(evaluation=EvaluationConfig(every=100))
    rounds = [[done.round for done in run.round(number)[0].outcomes["a"].evaluations] for number in (1, 2, 3, 4)]
    assert rounds == [[], [2], [2], [4]]
    assert [done.round for done in run.final_evaluation()["a"].evaluations] == [4]


def test_every_method_goes_through_tasks_with_the_bytes_that_were_predicted() -> None:
    for name in ("fedproto", "fedtgp", "fedpa", "fednova"):
        run = federation(methods.find(name).name)
        for number in (1, 3):
            for exchanged in run.round(number):
                for client, facts in exchanged.facts.items():
                    up = exchanged.exchange.uplink.sizes(exchanged.exchange.uplink_dims(facts))
                    assert exchanged.uplinks[client].sizes == up, f"{name}, round {number}, client {client}"


def test_features_are_kept_for_an_audit_after_a_tasks_last_round_alone() -> None:
    run = federation(privacy=PrivacyConfig(audit=True))
    kept = [run.round(number)[0].outcomes["a"].features for number in (1, 2, 3, 4)]
    assert [sorted(each) for each in kept] == [[], ["candidates", "features", "labels"]] * 2
    assert kept[1]["features"].shape == kept[1]["candidates"].shape == (5, 6)
    assert (kept[1]["features"] != kept[1]["candidates"]).any()
    assert kept[3]["labels"].tolist() == [2]


def test_an_audit_changes_nothing_of_a_run() -> None:
    plain, audited = federation(), federation(privacy=PrivacyConfig(audit=True))
    for run in (plain, audited):
        for number in (1, 2):
            run.round(number)
    assert state_hash(plain.server.arrays()) == state_hash(audited.server.arrays())


def test_the_digest_is_that_of_the_rounds_task() -> None:
    client = federation().clients["a"]
    digests = [client.samples_digest(round) for round in (1, 2, 3, 4)]
    assert digests[0] == digests[1] != digests[2] == digests[3]
