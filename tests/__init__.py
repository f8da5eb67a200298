"""The tests of ttlproxy, against real Redis servers and the real proxy."""
