"""Proxies are killed at random under clients in two languages; at the end nothing is missing."""
