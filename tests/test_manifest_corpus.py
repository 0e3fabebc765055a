"""Every argument list that public charts give the two Go sidecars: taken over unchanged."""

from collections.abc import Callable, Sequence

import pytest
from manifest_corpus import REFUSED, Spec, accepted_registrar_specs, replaced, specs

from csi_node_driver_registrar.config import ConfigError, parse_livenessprobe, parse_registrar

PARSERS: dict[str, Callable[[Sequence[str]], object]] = {
    "registrar": parse_registrar,
    "livenessprobe": parse_livenessprobe,
}
ALL = [spec for component in PARSERS for spec in specs(component)]


@pytest.mark.parametrize("spec", ALL, ids=[spec.id for spec in ALL])
def test_a_charts_arguments_are_accepted_or_refused_as_in_go(spec: Spec) -> None:
    """R66."""
    parse = PARSERS[spec.component]
    if spec.id not in REFUSED:
        parse(spec.argv)
        return
    with pytest.raises(ConfigError) as caught:
        parse(spec.argv)
    assert str(caught.value).startswith(REFUSED[spec.id])


def test_the_corpus_is_whole_and_filled_in() -> None:
    assert len(ALL) == 191
    assert len({spec.id for spec in ALL}) == 191
    assert set(REFUSED) <= {spec.id for spec in ALL}
    assert not [word for spec in ALL for word in spec.argv if set("$<") & set(word)]


@pytest.mark.parametrize("spec", specs("registrar", os="windows"), ids=lambda spec: str(spec.id))
def test_windows_paths_come_out_as_they_went_in(spec: Spec) -> None:
    """R44."""
    (driver,) = parse_registrar(spec.argv).drivers
    given = dict(word.lstrip("-").split("=", 1) for word in spec.argv)
    assert driver.kubelet_registration_path == given["kubelet-registration-path"]
    if "\\" in given["csi-address"]:
        assert driver.csi_address == given["csi-address"]


@pytest.mark.parametrize(
    "spec",
    [spec for spec in ALL if spec.is_current and spec.id not in REFUSED],
    ids=lambda spec: str(spec.id),
)
def test_charts_of_today_cause_no_warning_but_for_a_deprecated_port(spec: Spec) -> None:
    """R30: a warning that healthy set-ups show is read by nobody."""
    parse = parse_registrar if spec.component == "registrar" else parse_livenessprobe
    warnings = set(parse(spec.argv).warnings)
    assert warnings <= {"--health-port is deprecated: use --http-endpoint"}


def test_the_accepted_registrars_are_those_of_linux_with_a_path_for_kubelet() -> None:
    accepted = dict(accepted_registrar_specs())
    assert len(accepted) == 91
    assert not set(accepted) & set(REFUSED)
    for argv in accepted.values():
        assert parse_registrar(argv).drivers[0].kubelet_registration_path.startswith("/")


def test_arguments_can_be_moved_to_other_sockets_in_the_form_they_have() -> None:
    argv = ["-csi-address", "/csi/csi.sock", "--http-endpoint=:9809", "--v=5"]
    values = {"csi-address": "/tmp/a", "http-endpoint": ":0", "timeout": "3s"}
    assert replaced(argv, values) == ["-csi-address", "/tmp/a", "--http-endpoint=:0", "--v=5"]
