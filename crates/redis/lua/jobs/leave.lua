-- Removes consumers that hold nothing: those of one worker, or (worker '') those idle for too long.
-- Deleting a consumer deletes its pending entries too, so the check and the deletion are one
-- script.
-- KEYS  stream, leases
-- ARGV  group, worker, idle limit in ms
-- Returns how many were removed.
local group, worker, idle, removed = ARGV[1], ARGV[2], tonumber(ARGV[3]), 0
expect_type(KEYS[2], 'hash')
local consumers = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], group)
if consumers.err then consumers = {} end
local remaining = {}
for _, info in ipairs(consumers) do
  local consumer = {}
  for i = 1, #info, 2 do consumer[info[i]] = info[i + 1] end
  local owner = string.gsub(consumer.name, '%+held$', '')
  local gone = worker == '' and consumer.idle > idle or owner == worker
  if gone and consumer.pending == 0 then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], group, consumer.name)
    removed = removed + 1
  else
    remaining[owner] = true
  end
end
-- The lease of a worker without a consumer has no meaning.
local leases = worker ~= '' and { worker } or redis.call('HKEYS', KEYS[2])
for _, owner in ipairs(leases) do
  if not remaining[owner] then redis.call('HDEL', KEYS[2], owner) end
end
return removed
