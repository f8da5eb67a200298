"""The proxy's reports on itself: log lines, the catalogue of metrics, its health, and the totals of
several workers.

Knows what is counted and where. Does not know how it is shown: that is `admin`.
"""
