"""Commands that every data type has, made once from the noun of the type.

Knows how deadlines are set, read and dropped. Knows no data type.
"""
