-- Orders a member to take no more sessions and to leave when it has none.
-- KEYS  cluster:lifetime_connections
-- ARGV  the ARGV of the fleet, then: member
-- Returns 1 if it was there, else 0 with nothing written.
local id = ARGV[6]
local m = load(id)
if not m then return 0 end
order(m)
if place_of(id) then place(m) end
tell('member ' .. id)
return finish(1)
