"""Calls and replies of the engine, without I/O: names, keys, options, payloads, and one generator an operation.

Nothing here opens a socket or reads a clock. Operations are generators over `steps.Effect`; `server` drives them.
What cannot be encoded, named or routed is refused here, before anything is sent.
"""
