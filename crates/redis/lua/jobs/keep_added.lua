-- Ends a transaction that has just added untracked jobs: leaves the receipt of the call, or removes
-- the jobs again if a repeat of the call arrived earlier and has added them already.
-- KEYS  target, queues, receipt
-- ARGV  kind ('s' or 'l'), queue, number of the call, TTL of its receipt in ms, number of jobs that
--       the transaction has added
-- Returns 1 if the jobs stay, 0 if they existed. On an error the jobs are removed.
local call, pcall, target, number = redis.call, redis.pcall, KEYS[1], ARGV[3]
local is_stream, member = ARGV[1] == 's', ARGV[1] .. ' ' .. ARGV[2]

local function remove_added()
  if is_stream then
    for _, entry in ipairs(call('XREVRANGE', target, '+', '-', 'COUNT', ARGV[5])) do
      call('XDEL', target, entry[1])
    end
    if call('XLEN', target) == 0 and #call('XINFO', 'GROUPS', target) == 0 then call('DEL', target) end
  else
    call('LTRIM', target, ARGV[5], -1)
  end
end

local function failed(answer)
  if type(answer) ~= 'table' or not answer.err then return false end
  remove_added()
  return true
end

-- A key of another type has rejected every job: there is nothing to remove.
if call('TYPE', target).ok ~= (is_stream and 'stream' or 'list') then return 0 end
local last = pcall('GET', KEYS[3])
if failed(last) then return last end
if last and tonumber(string.match(last, '^%d+') or 0) >= tonumber(number) then
  remove_added()
  return 0
end
local known = pcall('SISMEMBER', KEYS[2], member)
if failed(known) then return known end
if known == 0 then
  local added = pcall('SADD', KEYS[2], member)
  if failed(added) then return added end
end
local kept = pcall('SET', KEYS[3], number, 'PX', ARGV[4])
if failed(kept) then return kept end
return 1
