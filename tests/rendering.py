"""Renders the manifests of `deploy/`, and judges them as an API server and a reviewer would.

What the Kubernetes schemas do not say, but an API server or kubelet refuses, is checked here too.
"""

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import yaml
from jsonschema.protocols import Validator  # type: ignore[import-untyped]
from kubernetes_validate.utils import schema_contents  # type: ignore[import-untyped]
from referencing import Registry, Resource

Object = dict[str, Any]

ROOT = Path(__file__).parent.parent
KUSTOMIZE = ROOT / "deploy" / "kustomize"
VERSIONS = tuple(f"1.{minor}.0" for minor in range(30, 38))
"""The releases of Kubernetes whose schemas every manifest has to pass, unknown fields refused."""

_KUBECTL = Path(sys.executable).with_name("kubectl")
_CHECKOV = ROOT / ".venv-checkov" / "bin" / "checkov"
_OPERATOR_GROUP = "monitoring.coreos.com/"
_POD_TEMPLATES = {"DaemonSet", "Deployment", "StatefulSet", "Job", "ReplicaSet"}


def kustomize(folder: Path) -> list[Object]:
    """Return what `kubectl kustomize` makes of a folder.

    Raises:
        AssertionError: if it refuses, with its own words.
    """
    command = [str(_KUBECTL), "kustomize", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


def overlay(
    folder: Path,
    *,
    resources: Iterable[Path],
    components: Iterable[str] = (),
    patches: Iterable[Path] = (),
) -> list[Object]:
    """Return what becomes of resources with components of ours, in a kustomization of the user's.

    Folders are referred to; files are copied, as kustomize takes none from elsewhere.
    """
    files = [Path(shutil.copy(one, folder)).name for one in resources if one.is_file()]
    folders = [os.path.relpath(one, folder) for one in resources if one.is_dir()]
    kustomization = {
        "namespace": "storage",
        "resources": files + folders,
        "components": [
            os.path.relpath(KUSTOMIZE / "components" / one, folder) for one in components
        ],
        "patches": [{"path": Path(shutil.copy(one, folder)).name} for one in patches],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    return kustomize(folder)


def objects(text: str) -> list[Object]:
    """Return the objects of a YAML stream, without its empty documents."""
    return [document for document in yaml.safe_load_all(text) if document]


def of_kind(kind: str, rendered: Iterable[Object]) -> list[Object]:
    """Return the objects of one kind."""
    return [one for one in rendered if one["kind"] == kind]


def pod_spec(workload: Object) -> Object:
    """Return the pod's part of a workload."""
    spec: Object = workload["spec"]["template"]["spec"]
    return spec


def containers(workload: Object) -> dict[str, Object]:
    """Return the containers of a workload by name, without the init containers."""
    return {container["name"]: container for container in pod_spec(workload)["containers"]}


def validate(rendered: Iterable[Object]) -> None:
    """Check every object strictly against every release, and the parts of a pod against each other.

    Raises:
        AssertionError: with all problems, one a line.
    """
    found = list(rendered)
    assert found, "nothing was rendered"
    problems = [f"{_label(one)}: {problem}" for one in found for problem in _problems(one)]
    twice = [label for label, count in Counter(map(_label, found)).items() if count > 1]
    assert not problems + twice, "\n".join(
        problems + [f"{label}: rendered twice" for label in twice]
    )


def checkov(folder: Path) -> list[str]:
    """Return what checkov finds wrong in a folder of manifests, less what deploy/ reasons away."""
    config = ROOT / "deploy" / ".checkov.yaml"
    where = ["--config-file", str(config), "--directory", str(folder)]
    command = [str(_CHECKOV), *where, "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["passed"], "checkov looked at nothing"
    assert not report["summary"]["parsing_errors"], report["results"]["parsing_errors"]
    failed = report["results"]["failed_checks"]
    return [f"{one['check_id']} {one['resource']}: {one['check_name']}" for one in failed]


def _label(one: Object) -> str:
    metadata = one["metadata"]
    return f"{one['kind']} {metadata.get('namespace', '')}/{metadata['name']}"


def _problems(one: Object) -> Iterator[str]:
    yield from _schema_problems(json.dumps(one, sort_keys=True))
    if one["kind"] in _POD_TEMPLATES:
        yield from _pod_problems(one)


@cache
def _schema_problems(text: str) -> tuple[str, ...]:
    one = json.loads(text)
    if one["apiVersion"].startswith(_OPERATOR_GROUP):
        return tuple(_operator_problems(one))
    return tuple(
        f"{version}: {'.'.join(map(str, error.path))}: {error.message}"
        for version in VERSIONS
        for error in _validator(version, one["kind"], one["apiVersion"]).iter_errors(one)
    )


@cache
def _validator(version: str, kind: str, api_version: str) -> Validator:
    group, slash, number = api_version.partition("/")
    name = f"{kind.lower()}-{group.partition('.')[0]}{'-' if slash else ''}{number}"
    schema = schema_contents(f"{_schemas(version)}/{name}.json", version)
    registry = Resource.from_contents(schema) @ _definitions(version)
    return jsonschema.Draft202012Validator(schema, registry=registry)


@cache
def _definitions(version: str) -> Registry[Any]:
    shared = schema_contents(f"{_schemas(version)}/_definitions.json", version)
    return Resource.from_contents(shared) @ Registry()


def _schemas(version: str) -> str:
    return f"kubernetes-json-schema/v{version}-local-strict"


def _operator_problems(one: Object) -> Iterator[str]:
    version = one["apiVersion"].removeprefix(_OPERATOR_GROUP)
    # By name, because these models are large: three seconds of CPU, and more for a type checker.
    models = importlib.import_module(f"cloudcoil.models.prometheus_operator.{version}")
    try:
        getattr(models, one["kind"]).model_validate(
            one, extra="forbid", by_alias=True, by_name=False
        )
    except ValueError as error:
        yield str(error)


def _pod_problems(workload: Object) -> Iterator[str]:
    selector = workload["spec"].get("selector", {}).get("matchLabels", {})
    labels = workload["spec"]["template"]["metadata"].get("labels", {})
    if not selector.items() <= labels.items():
        yield f"the selector {selector} does not fit the pod's labels {labels}"
    pod = pod_spec(workload)
    every = [*pod.get("initContainers", []), *pod["containers"]]
    yield from _repeated("container", [container["name"] for container in every])
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    for container in every:
        yield from _container_problems(container, volumes)
    if pod.get("hostNetwork"):
        ports = [port for container in every for port in container.get("ports", [])]
        yield from _host_port_problems(ports)


def _container_problems(container: Object, volumes: set[str]) -> Iterator[str]:
    name = container["name"]
    mounts = container.get("volumeMounts", [])
    for mount in mounts:
        if mount["name"] not in volumes:
            yield f"{name} mounts the volume {mount['name']}, which the pod has not"
    yield from _repeated(f"mount path of {name}", [mount["mountPath"] for mount in mounts])
    port_names = [port["name"] for port in container.get("ports", []) if "name" in port]
    yield from _repeated(f"port of {name}", port_names)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        port = container.get(probe, {}).get("httpGet", {}).get("port")
        # kubelet looks a name up in the container that is probed, nowhere else in the pod.
        if isinstance(port, str) and port not in port_names:
            yield f"the {probe} of {name} asks the port {port}, which that container has not"


def _host_port_problems(ports: list[Object]) -> Iterator[str]:
    """On the host's network each container port is a host port, which a pod may have once."""
    for port in ports:
        if port.get("hostPort", port["containerPort"]) != port["containerPort"]:
            yield f"hostNetwork, but {port} has another hostPort than containerPort"
    used = [
        (port.get("hostIP"), port.get("protocol", "TCP"), port["containerPort"]) for port in ports
    ]
    yield from _repeated("host port", used)


def _repeated(what: str, values: Iterable[object]) -> Iterator[str]:
    for value, count in Counter(values).items():
        if count > 1:
            yield f"the {what} {value} is there {count} times"
