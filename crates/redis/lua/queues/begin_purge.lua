-- Begins a purge: sets apart in one step what is scheduled and, of a list, what is ready, and says up to where a stream is
-- to be purged. So nothing that is added later is deleted. If the caller dies, others complete the purge by the errand.
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, purged, purged list
-- ARGV  channel, kind ('s' or 'l'), queue
-- Returns the time in ms, the last entry of the stream ('0-0' if there is none), and the errand. Or, with nothing written,
-- 'busy' if an earlier purge has set jobs apart that are still there.
local h, target, scheduled, purged, list = home(), KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local kind, last = ARGV[2], '0-0'
expect(h.errands, 'zset')
expect(target, kind == 's' and 'stream' or 'list')
expect(scheduled, 'zset')
if redis.call('EXISTS', purged, list) > 0 then return { 'busy' } end
if kind == 's' and redis.call('EXISTS', target) == 1 then
  local about = redis.call('XINFO', 'STREAM', target)
  for i = 1, #about, 2 do
    if about[i] == 'last-generated-id' then last = about[i + 1] end
  end
end
owe(h, 'p ' .. kind .. ' ' .. last .. ' ' .. ARGV[3])
if redis.call('EXISTS', scheduled) == 1 then redis.call('RENAME', scheduled, purged) end
if kind == 'l' and redis.call('EXISTS', target) == 1 then redis.call('RENAME', target, list) end
return with_owed({ whole(now()), last }, h)
