-- Deletes a key of another type than a sorted set in the place of the schedule.
-- KEYS: schedule
-- ARGV:
-- RESULT: 1 deleted; 0 it is a sorted set, or does not exist
-- include index
return schedule_make_room(schedule)
