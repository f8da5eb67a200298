-- check_type.lua for a list, for commands on several elements: looks for all of them in one walk, if that is cheaper.
-- NEEDS: list.lua first_element
-- include list_length
look_for(ARGV, first_element)
