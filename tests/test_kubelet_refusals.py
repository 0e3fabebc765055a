"""kubelet's refusals, and the plain sentence that stands beside each known kind."""

import os
from collections.abc import Callable
from dataclasses import dataclass

import grpc
import pytest
from observing import RecordingObserver
from supervising import supervising

from csi_node_driver_registrar.driver_checks import check_registration
from csi_registration_simulator.driver import CallError, SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from health.errors import Unhealthy
from registrar.kubelet_refusals import explain_refusal, with_explanation
from registrar.observer import Announced, State, VerdictReceived
from registrar.settings import DriverSettings
from registrar.supervisor import Status

FAILED = "RegisterPlugin error -- plugin registration failed with err: "
VALIDATION = "RegisterPlugin error -- plugin validation failed with err: "
NODE = "error updating Node object with CSI driver node info: "
CSINODE = "error updating CSINode object with CSI driver node info: "
DIALING = 'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while '
INVALID = 'CSINode.storage.k8s.io "n1" is invalid: spec.drivers[0].nodeID: '
SOCKET = "/var/lib/kubelet/plugins/x/csi.sock"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            f'{FAILED}{DIALING}dialing: dial unix {SOCKET}: connect: no such file or directory"',
            f"there is no driver socket at {SOCKET} on the host",
        ),
        (
            f'{FAILED}{DIALING}dialing: dial unix {SOCKET}: connect: connection refused"',
            f"the driver is down: its socket {SOCKET} is there",
        ),
        (
            f'{FAILED}{DIALING}dialing: dial unix {SOCKET}: connect: permission denied"',
            f"kubelet may not connect to the driver's socket {SOCKET}",
        ),
        (
            f"{FAILED}rpc error: code = Internal desc = no route to the metadata service",
            "the driver's NodeGetInfo failed with Internal: no route to the metadata service",
        ),
        (
            f"{FAILED}rpc error: code = Unavailable desc = error reading from server: EOF",
            "the driver's NodeGetInfo failed with Unavailable: error reading from server: EOF",
        ),
        (
            f"{FAILED}rpc error: code = DeadlineExceeded desc = context deadline exceeded",
            "did not answer NodeGetInfo within the 2 minutes",
        ),
        (
            f"{FAILED}rpc error: code = Unimplemented desc = unknown service csi.v1.Node",
            "the driver has no Node service",
        ),
        (
            f"{FAILED}error adding CSI driver node info: driverNodeID must not be empty",
            "the driver gave an empty node_id",
        ),
        (f"{FAILED}{CSINODE}{INVALID}Required value", "the driver gave an empty node_id"),
        (
            f'{FAILED}{CSINODE}{INVALID}Invalid value: "i-0": must be 128 characters or less',
            "longer than the 128 characters",
        ),
        (
            f"{FAILED}{CSINODE}{INVALID}Too long: may not be more than 256 bytes",
            "longer than the 256 characters",
        ),
        (
            (
                f"{FAILED}{NODE}detected topology value collision: driver reported "
                '"topology.x.io/zone":"b" but existing label is "topology.x.io/zone":"a"'
            ),
            (
                "topology topology.x.io/zone=b, but the Node already has the label "
                "topology.x.io/zone=a"
            ),
        ),
        (
            (
                f"{FAILED}{NODE}error updating node: timed out waiting; caused by: "
                'detected topology value collision: driver reported "k":"" but existing label is '
                r'"k":"a\"b"'
            ),
            'the topology k=, but the Node already has the label k=a"b',
        ),
        (
            (
                f"{FAILED}{CSINODE}error updating CSINode: timed out waiting for the condition; "
                'caused by: nodes "worker-7" not found'
            ),
            "the Node object worker-7 does not exist yet",
        ),
        (f"{FAILED}{NODE}resource name may not be empty", "does not know its Node's name yet"),
        (
            (
                f"{FAILED}{CSINODE}timed out waiting for the condition; caused by: "
                'csinodes.storage.k8s.io "n1" is forbidden: User "system:node:n2" cannot get'
            ),
            (
                "could not write the driver into the CSINode object; the API server could not be "
                "reached, or said no: timed out waiting for the condition; caused by: csinodes"
            ),
        ),
        (
            f'{FAILED}{NODE}Patch "https://10.0.0.1:6443/": dial tcp 10.0.0.1:6443: i/o timeout',
            "could not write the driver's node id or topology into the Node object",
        ),
        (
            (
                f"{VALIDATION}validation failed for CSI Driver x.io at endpoint {SOCKET}: "
                'kubernetes.io/csi: ValidatePlugin for CSI driver "x.io" failed. Another driver '
                'with the same name is already registered with a higher supported version: "1.0.0"'
            ),
            "another driver with this name is registered on the node already",
        ),
    ],
)
def test_a_known_kind_gets_one_plain_sentence_with_its_particulars(text: str, words: str) -> None:
    """R32, R33."""
    sentence = explain_refusal(text)
    assert sentence is not None
    assert words in sentence
    assert with_explanation(text) == f"{text} ({sentence})"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kubelet gave no reason",
        "no such node",
        "RegisterPlugin error -- no handler registered for plugin type: CSIPlugin",
        "rpc error: code = Internal desc = not from NodeGetInfo",
        "{0} {1} %s",
    ],
)
def test_an_unknown_kind_gets_none_and_stays_as_it_is(text: str) -> None:
    assert explain_refusal(text) is None
    assert with_explanation(text) == text


def test_what_is_quoted_is_printable_and_cut() -> None:
    sentence = explain_refusal(f"{FAILED}rpc error: code = Internal desc = a\nb{'x' * 1000}{{0}}")
    assert sentence is not None
    assert sentence.isprintable()
    assert len(sentence) < 300


def test_a_hostile_text_is_searched_in_no_time() -> None:
    """It would take hours if a form could match in exponentially many ways."""
    for text in ('driver reported "' + '\\"' * 500, "nodeID: Too long" * 60, "dial unix " * 100):
        explain_refusal(f"topology value collision: {text}")


@dataclass(frozen=True)
class Fault:
    """How a driver makes kubelet refuse it, and what is said of that."""

    name: str
    cause: Callable[[SimulatedDriver], None]
    words: str


def move_endpoint(driver: SimulatedDriver) -> None:
    os.unlink(driver.csi_address)


FAULTS = [
    Fault("no socket on the host", move_endpoint, "there is no driver socket at"),
    Fault(
        "no Node service",
        lambda driver: driver.errors.update(
            NodeGetInfo=CallError(grpc.StatusCode.UNIMPLEMENTED, "unknown service csi.v1.Node")
        ),
        "the driver has no Node service",
    ),
    Fault(
        "NodeGetInfo fails",
        lambda driver: driver.errors.update(
            NodeGetInfo=CallError(grpc.StatusCode.INTERNAL, "no instance id")
        ),
        "NodeGetInfo failed with Internal: no instance id",
    ),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_a_refusal_of_a_whole_kubelet_is_explained_where_the_operator_looks(
    driver: SimulatedDriver,
    kubelet: SimulatedKubelet,
    settings: DriverSettings,
    observer: RecordingObserver,
    fault: Fault,
) -> None:
    kubelet.disturbances.before_get_info_seconds = 0.2
    await driver.start()
    async with supervising(settings, observer) as supervisor:
        await observer.wait_for(Announced)
        fault.cause(driver)
        await observer.wait_for(VerdictReceived, lambda verdict: not verdict.is_accepted)
        with pytest.raises(Unhealthy, match=fault.words):
            check_registration(supervisor.status)


def test_readiness_gives_kubelets_own_words_and_the_sentence() -> None:
    error = f"{FAILED}rpc error: code = Unimplemented desc = unknown service csi.v1.Node"
    status = Status(
        csi_address="/csi/csi.sock",
        driver_name="x.io",
        vendor_version="1",
        state=State.REJECTED,
        state_seconds=3.0,
        driver_problem=None,
        publication_problem=None,
        kubelet_error=error,
        kubelet_silence="",
        registration_socket_path="/registration/x.io-reg.sock",
    )
    with pytest.raises(Unhealthy, match="no Node service") as unhealthy:
        check_registration(status)
    assert error in str(unhealthy.value)
