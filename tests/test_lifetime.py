"""The event loop's own faults: told, but not once a second (R24)."""

import asyncio
import io

from csi_node_driver_registrar.klog import LogConfig, logging_to
from csi_node_driver_registrar.lifetime import _LoopFaults


def test_a_fault_that_repeats_is_one_line_and_another_fault_another() -> None:
    stream, loop = io.StringIO(), asyncio.new_event_loop()
    faults = _LoopFaults()
    with logging_to(LogConfig(), stdout=stream, stderr=stream):
        for _ in range(500):
            faults.tell(loop, {"message": "socket.accept() out of system resource"})
        for number in range(250):
            faults.tell(loop, {"message": f"fault {number}", "exception": OSError(24, "EMFILE")})
    loop.close()
    lines = stream.getvalue().splitlines()
    assert sum("out of system resource" in line for line in lines) == 1
    assert len(lines) == 251
    assert 'fault="fault 0"' in lines[1]
