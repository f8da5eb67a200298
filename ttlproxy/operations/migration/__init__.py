"""`ttlproxy import` and `ttlproxy export`: deadlines from and to what people have without ttlproxy.

A source (`pairs`, `redisson`, `timed`, `relative`) gives elements and their deadlines, a page at a
time. A target (`timed_target`, `pairs_target`) has the same elements, or gets them. `plan` decides,
`mover` goes through all keys, and `state` says how far it is. `commands` starts it.
"""
