"""Messages and services of the Container Storage Interface, made from our own minimal `.proto`."""
