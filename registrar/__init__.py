"""Keeps CSI drivers registered with kubelet: the core, without HTTP, metrics or a command line."""
