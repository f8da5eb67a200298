"""A link and a reaper for each master: of one server, or of all masters of a Cluster."""
