-- Cancels one job that is where the index said, or tells that it has moved.
-- KEYS  the KEYS of a place: jobs, waiters, notices, errands, keyed, target, scheduled, blocked, dlq, cancelled, lock,
--       running, dropped, record, waits
-- ARGV  the ARGV of a place: channel, job id, the index value as it was read ('' for an untracked job), place (first
--       letter of that value), reference (entry or member), group; then those of a world, and what a run is told of an
--       activity that was taken away: what stands before and after the number
-- Returns 'removed', 'requested' or 'moved'; then the errands that are owed; then, behind '', what a blocked job was
-- registered with.
local q, h, p = place()
local w = world(h, 7)
local told = removal(w, q.chain, { w.read(), w.read() })
if not p.is_there() then return { 'moved' } end
if p.letter == 's' and lease(q.target, q.group, p.reference) or p.letter == 'l' and redis.call('EXISTS', q.lock) == 1 then
  redis.call('HSET', q.cancelled, p.indexed ~= '' and q.chain or p.reference, 1)
  notify(h.channel, 'cancel ' .. p.current())
  return { 'requested' }
end
local taken, registered = take(q, h, p.letter, p.reference)
if not taken then return { 'moved' } end
redis.call('HDEL', h.jobs, q.chain)
close(h, q.chain, '', 0)
if told then deliver(w, told) end
finish(w)
notify(h.channel, 'finished ' .. q.chain)
return p.answer('removed', registered)
