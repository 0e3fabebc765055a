"""The command `csi-node-driver-registrar`: arguments in, parts put together, an exit status out."""
