"""The messages (`registration_pb2`) and the service (`registration_pb2_grpc`), made by `make proto`."""
