-- Releases sessions, or places in a wait queue, of their holders.
-- KEYS  cluster:lifetime_connections
-- ARGV  the map of the fleet, with sessions: id and holder of each
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
for i, released in ipairs(args.sessions) do
  local session = load_session(released.id)
  if session and not session.is_over and session.holder == released.holder then
    end_session(session.id, session.member)
    out[i] = 1
  else
    out[i] = leave_wait_queue(released.id, released.holder)
  end
end
return reply_with(out)
