"""CSI version 1: `csi_pb2` holds the messages, `csi_pb2_grpc` the services. Made by `make proto`."""
