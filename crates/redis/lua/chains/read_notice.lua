-- What is to be told of a chain that has closed, and a page of those who are to be told, as one look. Writes nothing. (A
-- transaction would do, but a server that is out of memory refuses those.)
-- KEYS  waiters, notices
-- ARGV  chain, how many at most
-- Returns nothing if there is nothing to tell: who waits then waits for another chain of the same id. Else the record, ''
-- if the chain was removed, then waiters.
local notice = redis.call('HGET', KEYS[2], ARGV[1])
if not notice then return {} end
local out = { notice }
local page = redis.call('ZRANGEBYLEX', KEYS[1], '[' .. ARGV[1] .. ' ', '(' .. ARGV[1] .. '!', 'LIMIT', 0, ARGV[2])
for _, waiter in ipairs(page) do out[#out + 1] = waiter end
return out
