"""Why kubelet may not have called, as far as it can be seen from inside the container.

The most likely cause is chosen here, and nothing is claimed that was not seen. What there is to
see is gathered in `silence_evidence`, how it is said stands in `silence_words`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from registrar import silence_words
from registrar.kubelet_root import Finding, FolderReport, Verdict, shown
from registrar.observer import SilenceCause
from registrar.silence_evidence import Silence, Surroundings, look_around

MAX_DIAGNOSIS_CHARACTERS = 930
"""So that a readiness report, which cuts a reason at 1 KiB, has room for it and the state."""


class Diagnosis(NamedTuple):
    """Why kubelet is silent."""

    cause: SilenceCause
    text: str
    """For a person at night: the cause, the evidence, what to do."""


def diagnose(silence: Silence) -> Diagnosis:
    """Return why kubelet does not call, as far as it can be told; takes a few milliseconds."""
    return explain(silence, look_around(silence.socket_path))


def explain(silence: Silence, around: Surroundings) -> Diagnosis:
    """Put what is known into one text, the most likely cause first."""
    diagnosis = next(_causes(silence, around))
    return Diagnosis(diagnosis.cause, shown(diagnosis.text, MAX_DIAGNOSIS_CHARACTERS))


def _causes(silence: Silence, around: Surroundings) -> Iterator[Diagnosis]:
    """Yield what may be the cause: what is proved, then what is likely, then what is left."""
    report = around.report
    if report.finding is Finding.DELETED:
        words = silence_words.deleted_folder(report.folder)
        yield Diagnosis(SilenceCause.FOLDER_DELETED, f"kubelet cannot see the socket: {words}.")
    if silence.has_get_info and silence.is_get_info_missed:
        yield _own_slowness(silence, around)
    if silence.has_get_info:
        yield Diagnosis(SilenceCause.NO_VERDICT, silence_words.no_verdict(silence))
    # A folder from which kubelet has called once is right, whatever the mounts look like.
    if silence.seconds_since_get_info is None:
        yield from _wrong_folder(silence, report)
    yield from _obstacles(silence, around)
    yield _what_is_left(silence, around)


def _wrong_folder(silence: Silence, report: FolderReport) -> Iterator[Diagnosis]:
    if report.verdict is Verdict.WRONG:
        cause = {
            Finding.PLUGINS: SilenceCause.PLUGINS_FOLDER,
            Finding.POD_VOLUME: SilenceCause.POD_VOLUME,
            Finding.NO_VOLUME: SilenceCause.NO_VOLUME,
        }.get(report.finding, SilenceCause.OTHER_FOLDER)
        yield Diagnosis(cause, silence_words.wrong_folder(silence, report))
    if report.finding is Finding.OWN_FILE_SYSTEM:
        text = silence_words.own_file_system(silence, report)
        yield Diagnosis(SilenceCause.MOUNTED_OVER, text)


def _obstacles(silence: Silence, around: Surroundings) -> Iterator[Diagnosis]:
    """Yield what stands between kubelet and us although the folder may be right."""
    if around.inotify_problem is not None and around.is_kubelets_inotify:
        text = silence_words.inotify_used_up(around)
        yield Diagnosis(SilenceCause.INOTIFY_USED_UP, text)
    if silence.is_slow:
        yield _own_slowness(silence, around)
    if silence.is_path_avoided and around.report.verdict is Verdict.RIGHT:
        yield Diagnosis(SilenceCause.BACK_OFF, silence_words.back_off(silence, around))


def _own_slowness(silence: Silence, around: Surroundings) -> Diagnosis:
    return Diagnosis(SilenceCause.OWN_SLOWNESS, silence_words.own_slowness(silence, around))


def _what_is_left(silence: Silence, around: Surroundings) -> Diagnosis:
    has_called = silence.seconds_since_get_info is not None
    if has_called:
        cause = SilenceCause.KUBELET_GONE
        text = silence_words.called_before(silence, around)
    elif around.report.verdict is Verdict.RIGHT:
        cause = SilenceCause.UNKNOWN
        text = silence_words.right_folder(silence, around)
    else:
        return Diagnosis(SilenceCause.UNKNOWN, silence_words.unknown_folder(silence, around))
    return Diagnosis(SilenceCause.BROKEN_WATCH if silence.is_kubelet_alive else cause, text)
