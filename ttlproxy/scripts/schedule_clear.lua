-- Removes what stands in the place of the schedule and is no sorted set.
-- KEYS: schedule
-- ARGV:
-- RESULT: 1 removed, 0 it is one, or there is nothing
-- include index
return schedule_make_room(schedule)
