"""The command line: `main` reads flags, environment and file; `subcommand` finds doctor and others,
each in a module of its own.

Knows how settings are given and how results are printed. Other packages do everything else.
"""
