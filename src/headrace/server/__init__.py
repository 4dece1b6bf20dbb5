"""The server side: finding or starting a server, the two transports, the function library and its loading.

From outside, only `connect` (a URL or client to a `Site`), `transport` and `embedded` are touched, by `app`.
A lost connection is retried with jitter for numbered and read-only calls; what stays lost becomes
`ServerUnavailable`. Nothing here knows what a job is.
"""
