"""How the kernel schedules this process beside the node's work."""

import os


def never_preempt() -> None:
    """Let the threads that are started from now on wait for their turn when they wake up.

    That is SCHED_BATCH (sched(7)): the share of the CPU stays the same. It is there for gRPC's
    threads. Once a second one of them wakes up another to look at the timers, and does it itself
    unless that one preempts it and is faster; in this case it naps a dozen times before it is calm
    again. So the process wakes up 10 times a second instead of 13 to 16. Where all CPUs are busy, a
    call to this process may take 12 ms longer.

    Where another policy was chosen it stays, and where the kernel or the container's rules do not
    allow a change nothing happens.
    """
    try:
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    except OSError:
        return  # musl has no such call, and a seccomp profile may forbid it
