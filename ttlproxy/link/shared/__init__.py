"""Objects that the link, the reaper and all sessions of a proxy share: `context` has all of them.

The agenda of the reaper, rules, how many proxies there are, and what is asked of schedules.
"""
