"""The kernel's table of mounts, read as the kernel walks it."""

import os

import pytest

from registrar.mount_table import MAX_BYTES, Mount, parse_mount_table, read_mount_table


def table(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


ROOT = "700 600 0:93 / / rw,relatime master:12 - overlay overlay rw,lowerdir=/a:/b,upperdir=/c"


def holding(path: str, *lines: str) -> Mount | None:
    return parse_mount_table(table(*lines), [path]).holding(path)


def test_all_that_matters_of_a_line_is_read() -> None:
    line = (
        "711 700 259:1 /var/lib/kubelet/plugins_registry /registration rw,noatime shared:5 "
        "master:1 propagate_from:2 - ext4 /dev/nvme0n1p1 rw,discard"
    )
    assert holding("/registration", ROOT, line) == Mount(
        mount_id=711,
        parent_id=700,
        device="259:1",
        root="/var/lib/kubelet/plugins_registry",
        point="/registration",
        file_system="ext4",
        is_deleted=False,
    )


@pytest.mark.parametrize(
    ("escaped", "meant"),
    [
        (r"/my\040kubelet", "/my kubelet"),
        (r"/a\011b\012c", "/a\tb\nc"),
        (r"/back\134slash", "/back\\slash"),
        (r"/hash\043", "/hash#"),
        (r"/not\0\09x", r"/not\0\09x"),
        ("/\u00fcber", "/\u00fcber"),
    ],
)
def test_escapes_are_undone_in_the_root_and_in_the_mount_point(escaped: str, meant: str) -> None:
    mount = holding(meant, ROOT, f"711 700 259:1 {escaped} {escaped} rw - xfs /dev/sda1 rw")
    assert mount is not None
    assert (mount.root, mount.point, mount.file_system) == (meant, meant, "xfs")


def test_names_that_are_no_text_are_kept_as_the_file_system_has_them() -> None:
    path = os.fsdecode(b"/\xff\xfe")
    data = b"1 0 0:1 / / rw - overlay o rw\n2 1 8:1 /\xff\xfe /\xff\xfe rw - ext4 d rw\n"
    mount = parse_mount_table(data, [path]).holding(path)
    assert mount is not None
    assert os.fsencode(mount.root) == b"/\xff\xfe"


def test_a_folder_that_was_removed_is_marked_so() -> None:
    mount = holding("/r", ROOT, "711 700 8:1 /plugins_registry//deleted /r rw - ext4 d rw")
    assert mount is not None
    assert mount.is_deleted
    assert mount.root == "/plugins_registry"


LOWER = "711 700 8:1 /lower /r rw - ext4 /dev/sda1 rw"
PARENT = "712 700 8:2 / /a rw - ext4 /dev/sdb1 rw"
UPPER = "712 711 0:50 / /r rw - tmpfs tmpfs rw"


@pytest.mark.parametrize(
    ("path", "lines", "expected"),
    [
        ("/r", [ROOT], "700"),
        ("/r", [ROOT, LOWER], "711"),
        ("/r/below", [ROOT, LOWER], "711"),
        ("/rather", [ROOT, LOWER], "700"),
        ("/r", [ROOT, LOWER, UPPER], "712"),
        ("/r", [ROOT, UPPER, LOWER], "712"),
        # A mount over the parent folder hides what was mounted below it before ...
        ("/a/r", [ROOT, "711 700 8:1 /x /a/r rw - ext4 d rw", PARENT], "712"),
        # ... but not what was mounted below it after.
        ("/a/r", [ROOT, PARENT, "713 712 8:1 /x /a/r rw - ext4 d rw"], "713"),
        # The root itself may be covered (pivot_root leaves such a pair for a while).
        ("/r", [ROOT, "701 700 0:94 / / rw - overlay o rw"], "701"),
        # The kernel gives numbers of mounts anew, so a younger one may have a smaller one.
        ("/r", [ROOT, "711 700 8:1 /l /r rw - ext4 d rw", "44 711 8:2 / /r rw - xfs e rw"], "44"),
        # A root that is its own parent, as in the first namespace of some kernels.
        ("/r", ["1 1 0:2 / / rw - rootfs rootfs rw"], None),
    ],
)
def test_the_mount_that_a_path_lies_on_is_found_as_the_kernel_walks(
    path: str, lines: list[str], expected: str | None
) -> None:
    mount = holding(path, *lines)
    assert (str(mount.mount_id) if mount else None) == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "garbage",
        "711 700 8:1 /x /r rw",
        "711 700 8:1 /x /r rw shared:1 ext4 /dev/sda1 rw",
        "a b 8:1 /x /r rw - ext4 d rw",
        "- - - - - - -",
    ],
)
def test_a_line_of_another_form_is_passed_over(line: str) -> None:
    mount = holding("/r", ROOT, line)
    assert mount is not None
    assert mount.mount_id == 700


def test_a_table_without_a_root_tells_nothing() -> None:
    assert holding("/r", LOWER) is None
    assert holding("/r") is None


def test_only_mounts_on_the_way_are_kept() -> None:
    others = [
        f"{number} 700 8:1 /v{number} /v{number} rw - ext4 d rw" for number in range(800, 900)
    ]
    kept = parse_mount_table(table(ROOT, *others, LOWER), ["/r"]).mounts
    assert [mount.mount_id for mount in kept] == [700, 711]


def test_a_table_that_is_too_large_is_read_in_part_and_says_so(folder: str) -> None:
    line = "800 700 8:1 /var/lib/kubelet/pods/x/volumes/y /v rw - ext4 /dev/sda1 rw"
    with open(f"{folder}/mountinfo", "wb") as file:
        file.write(table(ROOT, LOWER) + table(line) * (MAX_BYTES // len(line)))
    found = read_mount_table(["/r"], f"{folder}/mountinfo")
    assert not found.is_whole
    assert [mount.mount_id for mount in found.mounts] == [700, 711]


def test_the_real_table_of_this_process_is_understood() -> None:
    found = read_mount_table(["/proc", "/"])
    assert found.is_whole
    proc = found.holding("/proc")
    assert proc is not None
    assert (proc.file_system, proc.root) == ("proc", "/")
