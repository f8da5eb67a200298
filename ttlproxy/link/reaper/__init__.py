"""Removes what is due, when the agenda says so; in front of a Cluster it also sends what is
forwarded to other slots."""
