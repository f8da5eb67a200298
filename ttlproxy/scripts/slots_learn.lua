-- Tells the slots of a Cluster's node which version of the rules is in force.
-- KEYS:
-- ARGV: version slots
-- `slots` has the three characters of the word of each slot, the hash tag of its internal keys.
-- RESULT: the words of those that could not be told
-- include slot_versions
return slots_learn(version, slots)
