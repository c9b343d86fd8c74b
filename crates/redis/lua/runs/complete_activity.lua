-- Ends one job from outside that is where the index said, whatever its lease, and tells a run of it; or says that it has
-- moved, or that the run cannot be told, with nothing written.
-- KEYS  the KEYS of a place
-- ARGV  the ARGV of a place, then those of a world, then a delivery
-- Returns 'completed', 'moved' or 'damaged'; then the errands that are owed; then, behind '', what a blocked job was registered with.
local q, h, p = place()
local w = world(h, 7)
local delivery = read_delivery(w)
if not p.is_there() then return { 'moved' } end

-- Whether the journal takes another entry. Adding one would tell as well, but the job would be gone by then.
local function is_sound(r)
  local about = redis.pcall('XINFO', 'STREAM', r.events)
  if about.err then return string.find(about.err, 'no such key', 1, true) ~= nil end
  for i = 1, #about, 2 do
    if about[i] == 'last-generated-id' then return tonumber(string.match(about[i + 1], '^%d+')) <= r.state.length end
  end
end

local run = load(w, delivery.run)
if run == false or run and is_running(run) and not is_sound(run) then return { 'damaged' } end
local job = p.current()
local taken, registered = take(q, h, p.letter, p.reference)
if not taken then return { 'moved' } end
forget(w, q, q.chain)
deliver(w, delivery)
finish(w)
if taken == 'running' then notify(h.channel, 'lost ' .. job) end
return p.answer('completed', registered)
