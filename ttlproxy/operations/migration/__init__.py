"""`ttlproxy import` and `ttlproxy export`: deadlines from and to what people have without ttlproxy.

A source (`pairs`, `redisson`, `timed`) gives elements and their deadlines, a page at a time. A
target (`timed`, `pairs`) has the same elements, or gets them. `elements` decides, and `mover`
goes through all keys and keeps its position. `jobs` has the table of sources and targets, and
`migration` runs one of them.
"""
