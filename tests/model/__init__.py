"""The engine's model test: random calls to the real functions, beside a model in plain Python.

`machine` makes the calls, `model` says what has to come of them, `state` reads all keys, `invariants` holds what
must be true of any shard at any time.
"""
