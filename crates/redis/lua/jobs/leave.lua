-- Removes consumers that hold nothing: one worker's, or (worker '') those idle for longer than a time.
-- Deleting a consumer deletes its pending entries too, so the check and the deletion are one step.
-- KEYS  stream, leases
-- ARGV  group, worker, idle in ms
-- Returns how many were removed.
local group, worker, idle, removed = ARGV[1], ARGV[2], tonumber(ARGV[3]), 0
expect(KEYS[2], 'hash')
local consumers = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], group)
if consumers.err then consumers = {} end
local here = {}
for _, info in ipairs(consumers) do
  local c = {}
  for i = 1, #info, 2 do c[info[i]] = info[i + 1] end
  local owner = string.gsub(c.name, '%+held$', '')
  local gone = worker == '' and c.idle > idle or owner == worker
  if gone and c.pending == 0 then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], group, c.name)
    removed = removed + 1
  else
    here[owner] = true
  end
end
-- The lease of a worker that has no consumer says nothing about anything.
local leases = worker ~= '' and { worker } or redis.call('HKEYS', KEYS[2])
for _, owner in ipairs(leases) do
  if not here[owner] then redis.call('HDEL', KEYS[2], owner) end
end
return removed
