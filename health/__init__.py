"""Named checks served over HTTP and gRPC; what healthy means is handed in as callables."""
