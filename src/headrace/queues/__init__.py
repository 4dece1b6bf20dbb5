"""Queues as people use them: `Queue`, `Job`, `Claim`, lanes and rules, on the engine's calls.

From outside, `Engine` (what everything runs on), `Queue`, `Job`, `Claim`, `Counts` and the values they answer
are touched. Every operation is written once as steps; `twins` gives it its plain and its asynchronous name.
A claim that is not current raises `ClaimLost`, or makes `complete()` answer False; nothing was changed then.
"""
