"""The names of aiohttp that this package needs; nothing else in it imports aiohttp.

They come from aiohttp's low-level server, module by module: `aiohttp.web` would load applications,
routers, runners and file servers as well, 1.4 MB that nothing here uses.
"""

from aiohttp.web_exceptions import HTTPMethodNotAllowed, HTTPNotFound
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest as Request
from aiohttp.web_response import Response, StreamResponse
from aiohttp.web_server import Server

__all__ = [
    "HTTPMethodNotAllowed",
    "HTTPNotFound",
    "Request",
    "RequestHandler",
    "Response",
    "Server",
    "StreamResponse",
]
