"""The command line: `main` reads flags, environment and file; `subcommands` has doctor and others.

Knows how settings are given and how results are printed. The rooms below do everything else.
"""
