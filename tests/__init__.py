"""The tests: each file stands beside the room it watches; `tools` holds what they share."""
