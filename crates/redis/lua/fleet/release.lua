-- Releases sessions, or places in a wait queue, of their holders.
-- KEYS  cluster:lifetime_connections
-- ARGV  the ARGV of the fleet, then per session: its id, its holder
-- Returns for each: 1 if there was something to release, else 0.

-- Leaves a wait queue, if the place belongs to this holder.
local function leave_wait_queue(session_id, holder)
  local kind, offer, whose = string.match(read_ticket(session_id) or '', '^(%S+) (%S+) (%S+)')
  if whose ~= holder then return 0 end
  local wait_queue = open_wait_queue(kind, offer)
  local ends = redis.call('ZSCORE', wait_queue.asked, session_id)
  leave_queue(wait_queue, session_id)
  update_wait_queue(wait_queue)
  if redis.call('EXISTS', wait_queue.turns) == 1 then add_wake('places ' .. kind) end
  return ends and tonumber(ends) > TIME and 1 or 0
end

local out = {}
for i = 6, #ARGV, 2 do
  local session = load_session(ARGV[i])
  if session and not session.is_over and session.holder == ARGV[i + 1] then
    end_session(session.id, session.member)
    out[#out + 1] = 1
  else
    out[#out + 1] = leave_wait_queue(ARGV[i], ARGV[i + 1])
  end
end
return reply_with(out)
