-- Ends one job from outside that is where the index said, whatever its lease, or tells that it has moved.
-- KEYS  the KEYS of a place: jobs, waiters, notices, errands, keyed, target, scheduled, blocked, dlq, cancelled, lock,
--       running, dropped, record, waits; then queues, target, scheduled and blocked of the queue where the chain goes
--       on, then the KEYS of a change
-- ARGV  the ARGV of a place: channel, job id, the index value as it was read ('' for an untracked job), place (first
--       letter of that value), reference (entry or member), group; then the queue where the chain goes on ('' if it
--       does not), then the ARGV of a change
-- Returns 'completed' or 'moved'; then the errands that are owed; then, behind '', what a blocked job was registered
-- with.
local q, h, p = place()
q.next = { kind = 's', name = ARGV[7], target = KEYS[17], scheduled = KEYS[18], blocked = KEYS[19], jobs = h.jobs }
expect(KEYS[16], 'set')
if q.next.name ~= '' then expect_queue(q.next) end
-- Where the job itself may go: back, or to the dead letters.
expect(q.scheduled, 'zset')
expect(q.dlq, 'stream')
if not p.is_there() then return { 'moved' } end
local job, change = p.current(), (read_change(8, 20))
local taken, registered = take(q, h, p.letter, p.reference)
if not taken then return { 'moved' } end
apply(q, h, change)
if p.indexed == '' then redis.call('HDEL', q.cancelled, p.reference) end
publish_ends(h)
if taken == 'running' then notify(h.channel, 'lost ' .. job) end
if q.next.name ~= '' then redis.call('SADD', KEYS[16], 's ' .. q.next.name) end
announce(q.next, h.channel)
return p.answer('completed', registered)
