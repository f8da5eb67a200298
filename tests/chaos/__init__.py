"""Proxies are killed at random under clients of two languages; in the end all is accounted for."""
