"""gRPC channels to unix sockets, set up as kubelet's are."""

import contextlib
from collections.abc import AsyncIterator
from urllib.parse import quote

import grpc.aio

_UNESCAPED = "-_.~!$&'()*+,;=:[]@"
"""What Go's gRPC leaves as it is when it makes an authority of a path."""


def authority_of(socket_path: str) -> str:
    """Return the `:authority` that Go's gRPC sends to a server at that path."""
    return quote(socket_path, safe=_UNESCAPED)


@contextlib.asynccontextmanager
async def connecting(socket_path: str, authority: str) -> AsyncIterator[grpc.aio.Channel]:
    """Yield a channel that shares no connection with any other, and close it in the end."""
    options = (
        ("grpc.default_authority", authority),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
    )
    channel = grpc.aio.insecure_channel(f"unix:{quote(socket_path)}", options=options)
    try:
        yield channel
    finally:
        await channel.close()
