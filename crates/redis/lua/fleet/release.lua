-- Ends sessions, or gives up places in a line, of those who hold them.
-- KEYS  cluster:lifetime_connections
-- ARGV  the ARGV of the fleet, then per session: its id, its holder
-- Returns for each: 1 if there was something to end, else 0.

-- Gives up a place in a line, if it is this holder's.
local function give_up(sid, holder)
  local kind, offer, whose = string.match(ticket_of(sid) or '', '^(%S+) (%S+) (%S+)')
  if whose ~= holder then return 0 end
  local line = line_of(kind, offer)
  local ends = redis.call('ZSCORE', line.asked, sid)
  quit(line, sid)
  note(line)
  if redis.call('EXISTS', line.turns) == 1 then tell('places ' .. kind) end
  return ends and tonumber(ends) > TIME and 1 or 0
end

local out = {}
for i = 6, #ARGV, 2 do
  local s = session(ARGV[i])
  if s and not s.is_over and s.holder == ARGV[i + 1] then
    end_session(s.id, s.member)
    out[#out + 1] = 1
  else
    out[#out + 1] = give_up(ARGV[i], ARGV[i + 1])
  end
end
return finish(out)
