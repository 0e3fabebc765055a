"""The names of aiohttp that this package needs; nothing else in it imports aiohttp."""

from aiohttp.web import (
    Application,
    AppRunner,
    BaseRequest,
    HTTPNotFound,
    Request,
    RequestHandler,
    Response,
    Server,
    StreamResponse,
    middleware,
)

__all__ = [
    "AppRunner",
    "Application",
    "BaseRequest",
    "HTTPNotFound",
    "Request",
    "RequestHandler",
    "Response",
    "Server",
    "StreamResponse",
    "middleware",
]
