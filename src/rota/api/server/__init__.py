"""The HTTP server: uvicorn with limits on connections, deadlines, and a shortcut past ASGI.

`serve` starts it. `protocol` is the protocol of one connection, on top of `deadlines`; `connections` bounds all
connections together. `fast_io` is the only module that replaces parts of uvicorn's request handling for speed.
"""
