"""`registration_pb2` holds the messages, `registration_pb2_grpc` the service. Made by `make proto`."""
