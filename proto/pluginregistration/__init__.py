"""kubelet's plugin registration API, made from our own minimal `.proto`."""
