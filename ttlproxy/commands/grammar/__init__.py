"""The words of a request, read as Redis reads them, with Redis's error texts.

Knows numbers, times and options. Knows no command's name and no script.
"""
