-- Reads the notice of a closed chain and one page of its waiters atomically. Writes nothing. (A
-- transaction would do, but a server without memory refuses those.)
-- KEYS  waiters, notices
-- ARGV  chain, page size
-- Returns nothing if there is no notice: any waiter then waits for a later chain with the same id.
-- Else the record, '' if the chain was removed, then waiters.
local notice = redis.call('HGET', KEYS[2], ARGV[1])
if not notice then return {} end
local out = { notice }
local page = redis.call('ZRANGEBYLEX', KEYS[1], '[' .. ARGV[1] .. ' ', '(' .. ARGV[1] .. '!', 'LIMIT', 0,
  ARGV[2])
for _, waiter in ipairs(page) do out[#out + 1] = waiter end
return out
