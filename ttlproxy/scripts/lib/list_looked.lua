-- check_type.lua for a list, for commands on several elements: looks for all of them in one walk, if that is cheaper.
-- NEEDS: list.lua list_length.lua first_element
look_for(ARGV, first_element)
