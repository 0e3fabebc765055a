"""A simulated kubelet and a simulated CSI driver, for demos, driver authors and tests."""
