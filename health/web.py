"""The names of aiohttp that this package needs; nothing else in it imports aiohttp."""

from aiohttp.web import Application as Application
from aiohttp.web import AppRunner as AppRunner
from aiohttp.web import BaseRequest as BaseRequest
from aiohttp.web import HTTPNotFound as HTTPNotFound
from aiohttp.web import Request as Request
from aiohttp.web import RequestHandler as RequestHandler
from aiohttp.web import Response as Response
from aiohttp.web import Server as Server
from aiohttp.web import StreamResponse as StreamResponse
from aiohttp.web import middleware as middleware
