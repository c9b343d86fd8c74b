-- Lists the non-empty queues of waiting clients. Writes nothing.
-- KEYS  cluster:lifetime_connections
-- ARGV  the map of the fleet
-- Returns for each: kind, offer, number of clients.
local out = {}
for _, name in ipairs(redis.call('ZRANGE', LINES, 0, -1)) do
  local kind, offer = string.match(name, '^(%S+) (%S+)$')
  local waiting = kind and redis.call('ZCOUNT', open_wait_queue(kind, offer).asked, AFTER_NOW, '+inf') or 0
  if waiting > 0 then out[#out + 1] = { kind, offer, int_text(waiting) } end
end
return out
