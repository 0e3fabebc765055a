"""CSI version 1: the messages (`csi_pb2`) and services (`csi_pb2_grpc`), made by `make proto`."""
