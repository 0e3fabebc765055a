"""`--mode=kubelet-registration-probe`: asks the running sidecar whether kubelet took its driver.

kubelet runs it every few seconds, often with one second of time and a tenth of a core, so it
imports next to nothing and speaks just enough HTTP (R15, R52).
"""

import os
from _socket import AF_UNIX, SOCK_STREAM, socket  # without the weight of the module around it
from binascii import crc32

_REQUEST = b"GET /healthz/kubelet-registration HTTP/1.0\r\nHost: localhost\r\n\r\n"
_MAX_ANSWER_BYTES = 16 * 1024

# A little less than the second that kubelet gives by default, so that the reason is still told.
_TIMEOUT_SECONDS = 0.8


def probe_socket_path(registration_folder: str, kubelet_registration_path: str) -> str:
    """Return where the sidecar of one driver answers its exec probe: a name that kubelet ignores.

    Several sidecars may share the folder. They differ by the path of their driver on the host,
    and two instances for one driver by the container, of which the PID namespace is the mark.
    """
    container = os.stat("/proc/self/ns/pid").st_ino
    mark = crc32(f"{container} {kubelet_registration_path}".encode(errors="surrogateescape"))
    return f"{registration_folder.rstrip('/')}/.reg-{mark:08x}"


def ask_sidecar(registration_folder: str, kubelet_registration_path: str) -> str | None:
    """Return why the driver is not registered, in one line; None if it is."""
    path = probe_socket_path(registration_folder, kubelet_registration_path)
    try:
        answer = _exchange(path)
    except (FileNotFoundError, ConnectionRefusedError):
        return (
            f"no sidecar runs in this container for --kubelet-registration-path="
            f"{kubelet_registration_path}: nobody answers in {registration_folder}"
        )
    except TimeoutError:
        return f"the sidecar did not answer within {_TIMEOUT_SECONDS} s"
    except OSError as error:
        return f"the sidecar cannot be asked: {error}"
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    if status == [b"200"]:
        return None
    return body.decode(errors="replace").strip() or f"the sidecar answered {head[:80]!r}"


def _exchange(path: str) -> bytes:
    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.settimeout(_TIMEOUT_SECONDS)
        connection.connect(path)
        connection.sendall(_REQUEST)
        answer = b""
        while len(answer) < _MAX_ANSWER_BYTES and (data := connection.recv(_MAX_ANSWER_BYTES)):
            answer += data
        return answer
    finally:
        connection.close()
