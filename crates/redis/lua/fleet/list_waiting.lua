-- The lines in which somebody waits. Writes nothing.
-- KEYS  cluster:lifetime_connections
-- ARGV  the ARGV of the fleet
-- Returns for each: kind, offer, how many wait.
local out = {}
for _, name in ipairs(redis.call('ZRANGE', LINES, 0, -1)) do
  local kind, offer = string.match(name, '^(%S+) (%S+)$')
  local waiting = kind and redis.call('ZCOUNT', line_of(kind, offer).asked, after_now, '+inf') or 0
  if waiting > 0 then out[#out + 1] = { kind, offer, whole(waiting) } end
end
return out
