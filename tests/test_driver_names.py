"""What a driver may be called (R38), and how long the path may be that follows (R39)."""

import pytest

from registrar.driver_names import check_driver_name, registration_socket_path
from registrar.errors import DriverNameError


@pytest.mark.parametrize(
    "name",
    [
        "hostpath.csi.k8s.io",
        "ebs.csi.aws.com",
        "a",
        "7",
        "A.B-c",
        "Secrets-Store.CSI.k8s.io",
        "x" * 63,
        "a--b",
    ],
)
def test_a_name_that_the_api_server_takes_is_accepted(name: str) -> None:
    check_driver_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../evil",
        "..",
        ".",
        ".hidden",
        "a/b",
        "/etc/passwd",
        "a..b",
        "a.",
        "-a",
        "a-",
        "a-.b",
        "a_b",
        "Bad Name!",
        "a%zz",
        "a\nb",
        "a\n",
        "a\x00b",
        "a\x1b[31m",
        "übung",
        "٣",  # a digit, but none of ASCII's
        "x" * 64,
    ],
)
def test_any_other_name_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(DriverNameError) as refusal:
        registration_socket_path("/registration", name)
    text = str(refusal.value)
    assert "driver" in text
    assert text.isprintable()


def test_an_enormous_name_is_not_repeated_whole() -> None:
    with pytest.raises(DriverNameError) as refusal:
        check_driver_name("n" * 1_000_000)
    assert len(str(refusal.value)) < 300
    assert "1000000 characters" in str(refusal.value)


def test_the_path_is_the_one_that_kubelet_knows() -> None:
    assert registration_socket_path("/registration", "x.io") == "/registration/x.io-reg.sock"


def test_a_path_of_107_bytes_fits_and_one_more_does_not() -> None:
    folder = "/" + "f" * (107 - len("/") - len("/x.io-reg.sock"))
    assert len(registration_socket_path(folder, "x.io")) == 107
    with pytest.raises(DriverNameError, match=r"has 108 bytes, and a unix socket's may have 107"):
        registration_socket_path(folder + "f", "x.io")


def test_the_length_is_counted_in_bytes() -> None:
    with pytest.raises(DriverNameError, match="has 213 bytes"):
        registration_socket_path("/" + "ü" * 99, "x.io")
