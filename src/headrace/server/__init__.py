"""The server side: finding or starting a server, the two transports, the function library and its loading.

From outside, only `connect` (a URL or client to a `Site`, which runs operations) and `embedded` are touched, by `app`.
A lost connection is retried with jitter for numbered and read-only calls; what stays lost becomes
`ServerUnavailable`. Nothing here knows what a job is.

From the top down: `connect` reads where to go (`address`, `url_options`, `borrowed`), examines what is there
(`fitness`) and makes a `Site`. Its `delivery` turns effects into `moves`, with `topology` (which server), `refusals`
(what an error reply means) and `patience`. `sync_transport` and `async_transport` run moves on lines that `dial` opens.
"""
