"""What is measured and not shown."""

LEFT_OUT = {
    "process_virtual_memory_bytes": "says nothing about what a node has to give; resident does",
    "process_max_fds": "far above what is ever open, so a line of it would flatten the other",
    "python_info": "build_info names the Python that runs, which is all that is asked about it",
    "csi_node_registrar_csi_call_duration_seconds_sum": "an average hides what percentiles show",
    "csi_node_registrar_csi_call_duration_seconds_count": "calls are counted by code as well in "
    "csi_sidecar_operations_seconds_count",
    "csi_sidecar_operations_seconds_bucket": "its first bucket ends at 0.1 s, where drivers answer "
    "in milliseconds; csi_call_duration_seconds is finer",
    "csi_sidecar_operations_seconds_sum": "an average hides what percentiles show",
}
"""The reason, by metric. A test holds that everything else is on a dashboard."""
