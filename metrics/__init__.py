"""What happens to registrations as Prometheus series, on a registry that the caller owns."""
