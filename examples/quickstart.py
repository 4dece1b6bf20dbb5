"""Enqueue, lease, complete, explain: one server for all processes of this folder, started by the first of them."""

from headrace import Headrace

with Headrace() as app:
    emails = app.queue("emails")

    job = emails.enqueue({"to": "ada@example.com"}, id="welcome:42", priority=80)
    later = emails.enqueue({"to": "bob@example.com"}, delay=3600)
    print(job.status(), "-", job.explain())
    print(later.status(), "-", later.explain())

    for claim in emails.lease(seconds=30, n=10):  # ours alone for 30 seconds
        print("sending to", claim.data["to"], "- attempt", claim.attempt)
        claim.complete({"sent": True})  # True for exactly one caller
    print(job.status(), "-", job.result(timeout=10))

    app.lane("tenant-7", queue="emails", cap=1, rate="10/s")  # at most one at a time, ten a second
    first = emails.enqueue({"to": "c@example.com"}, lane="tenant-7")
    second = emails.enqueue({"to": "d@example.com"}, lane="tenant-7")
    (claim,) = emails.lease(seconds=30, n=10)
    print(second.explain())
    claim.complete()

    emails.pause("the mail server is down", who="ada")
    print(second.explain())
    emails.resume()
    print(emails.counts())
