"""Finds what is due and removes it.

`reaper` does so when the agenda says so, `reap_requests` for sessions that wait; both call the
scripts of `removal`. `schedules` says what is due. `ruled_deadlines` gives elements the deadlines
of rules. `walks` looks for keys that the schedules lack, and counts. In front of a Cluster
`outboxes` sends what is forwarded to other slots.
"""
