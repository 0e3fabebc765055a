"""What the recording rules make of a small fleet, in which every kind of sidecar is there.

promtool computes it. Here a missing promtool is a failure; `.ci/debian-packages` installs it.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from alert_scenes import (
    RULES,
    STARTED,
    growing,
    in_state,
    play,
    rules,
    sidecar,
    target,
    together,
    verdicts,
)
from measuring import DRIVER_NAME, PROBE

from registrar.observer import AnnouncementReason, State

pytestmark = pytest.mark.needs_prometheus

HALF_AN_HOUR = range(30)
METHOD = f'method_name="{PROBE}"'
CALLS = f'csi_sidecar_operations_seconds_count{{{{grpc_status_code="{{}}",{METHOD}}}}}'

FLEET = together(
    sidecar(
        "n1",
        HALF_AN_HOUR,
        {
            "registration_duration_seconds": 1,
            "get_info_requests_total": growing(60),
            "driver_restarts_total": growing(60),
            'announcements_total{reason="missing"}': growing(60),
            'probes_total{result="ready"}': growing(60),
            'probes_total{result="timeout"}': growing(20),
            CALLS.format("OK"): growing(60),
            CALLS.format("DeadlineExceeded"): growing(20),
            **verdicts("success", growing(60)),
            **verdicts("failure", growing(120)),
        },
    ),
    sidecar("n2", HALF_AN_HOUR, {"registration_duration_seconds": 3, "probe_success": 0}),
    sidecar(
        "n3", HALF_AN_HOUR, {**in_state(State.ANNOUNCED), "csi_socket_present": 0}, version="1.0.1"
    ),
    sidecar("n4", HALF_AN_HOUR, {**in_state(State.STANDBY), "registration_socket_present": 0}),
    sidecar("n5", HALF_AN_HOUR, {STARTED: 0}, driver=None),
    target(
        "csi_sidecar_operations_seconds_count",
        HALF_AN_HOUR,
        growing(60),
        job="storage/provisioner",
        driver_name=DRIVER_NAME,
        method_name="/csi.v1.Controller/CreateVolume",
        grpc_status_code="OK",
    ),
)

RECORDED: Mapping[str, Mapping[str, float]] = {
    "job:csi_node_registrar_build_info:count": {"": 5},
    "job:csi_node_registrar_without_driver:count": {"": 1},
    "job:csi_node_registrar_without_driver:count10m": {"": 1},
    "job_version:csi_node_registrar_build_info:count": {'version="0.1.0"': 5},
    "instance:csi_node_registrar_target:known": {
        f'instance="n{number}:9809"': 1 for number in range(1, 6)
    },
    "driver:csi_node_registrar_registered:sum": {"": 2},
    "driver:csi_node_registrar_registered:count": {"": 3},
    "driver:csi_node_registrar_registered:ratio": {"": 0.667},
    "driver:csi_node_registrar_unregistered:count10m": {"": 1},
    "driver_state:csi_node_registrar_registration_state:sum": {
        'state="waiting"': 0,
        'state="announced"': 1,
        'state="registered"': 2,
        'state="rejected"': 0,
        'state="standby"': 1,
    },
    "driver:csi_node_registrar_registration_duration_seconds:p99": {"": 2.98},
    "driver:csi_node_registrar_registration_duration_seconds:max": {"": 3},
    "driver:csi_node_registrar_registration_socket_present:sum": {"": 3},
    "driver:csi_node_registrar_driver_up:sum": {"": 4},
    "driver:csi_node_registrar_driver_up:count": {"": 4},
    "driver:csi_node_registrar_unhealthy:count": {"": 1},
    "driver:csi_node_registrar_csi_socket_present:sum": {"": 3},
    "driver_version:csi_node_registrar_driver_info:count": {
        'driver_version="1.0.0"': 3,
        'driver_version="1.0.1"': 1,
    },
    "driver_outcome:csi_node_registrar_registrations:rate5m": {
        'outcome="success"': 1,
        'outcome="failure"': 2,
    },
    "driver_reason:csi_node_registrar_announcements:rate5m": {
        f'reason="{reason}"': reason is AnnouncementReason.MISSING for reason in AnnouncementReason
    },
    "driver:csi_node_registrar_get_info_requests:rate5m": {"": 1},
    "driver:csi_node_registrar_driver_restarts:rate5m": {"": 1},
    "driver_result:csi_node_registrar_probes:rate5m": {
        'result="ready"': 1,
        'result="not_ready"': 0,
        'result="error"': 0,
        'result="timeout"': 0.333,
    },
    "driver_method_code:csi_node_registrar_csi_calls:rate5m": {
        f'{METHOD}, grpc_status_code="OK"': 1,
        f'{METHOD}, grpc_status_code="DeadlineExceeded"': 0.333,
    },
    "driver_method:csi_node_registrar_csi_call_errors:ratio_rate5m": {METHOD: 0.25},
    "driver_method_le:csi_node_registrar_csi_call_duration_seconds_bucket:rate5m": {
        f'{METHOD}, le="0.5"': 0.4,
        f'{METHOD}, le="+Inf"': 0.4,
    },
    "driver_method:csi_node_registrar_csi_call_duration_seconds:p50": {METHOD: 0.25},
    "driver_method:csi_node_registrar_csi_call_duration_seconds:p99": {METHOD: 0.495},
}
"""By recording rule what it gives of the fleet, by the labels that it adds to job and driver."""


def test_recording_rules_sum_up_the_fleet(tmp_path: Path) -> None:
    def labels(record: str, further: str) -> str:
        of_driver = f'driver_name="{DRIVER_NAME}"' if record.startswith("driver") else ""
        scrape = 'job="storage/csi", namespace="storage"'
        return f"{{{', '.join(filter(None, [scrape, of_driver, further]))}}}"

    expectations = [
        {
            "expr": f"round({record}, 0.001)",
            "eval_time": "25m",
            "exp_samples": [
                {"labels": labels(record, further), "value": float(value)}
                for further, value in expected.items()
            ],
        }
        for record, expected in RECORDED.items()
    ]
    play(tmp_path, FLEET, expectations)


def test_each_recording_rule_is_tried_above_and_listed_in_the_files_head() -> None:
    head = RULES.read_text(encoding="utf-8").partition("groups:")[0]
    listed = re.findall(r"^#     (\S+)", head, re.MULTILINE)
    records = [rule["record"] for rule in rules() if "record" in rule]
    assert sorted(listed) == sorted(records)
    assert RECORDED.keys() == set(records)
