"""The messages (`registration_pb2`) and service (`registration_pb2_grpc`), made by `make proto`."""
