-- Ends one job from outside that is where the index said, whatever its lease, and tells a run of it; or says that it has
-- moved.
-- KEYS  the KEYS of a place
-- ARGV  the ARGV of a place, then those of a world, then a delivery
-- Returns 'completed' or 'moved'; then the errands that are owed; then, behind '', what a blocked job was registered with.
local q, h, p = place()
local w = world(h, 7)
local delivery = read_delivery(w)
if not p.is_there() then return { 'moved' } end
local job = p.current()
local taken, registered = take(q, h, p.letter, p.reference)
if not taken then return { 'moved' } end
forget(w, q, q.chain)
deliver(w, delivery)
finish(w)
if taken == 'running' then redis.call('PUBLISH', h.channel, 'lost ' .. job) end
return p.answer('completed', registered)
