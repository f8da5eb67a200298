"""The command line: `main` reads flags, environment and file; `subcommands` has doctor and others.

Knows how settings are given and how results are printed. Other packages do everything else.
"""
