-- Returns how far a stream has been read, and who holds one entry.
-- KEYS  stream, paused
-- ARGV  group, entry ('' for none)
-- Returns the last entry that was read, 1 if the stream is paused, and the entry's consumer ('' if
-- none).
local position = stream_position(KEYS[1], KEYS[2], ARGV[1])
local held = ARGV[2] ~= '' and pending_entry(KEYS[1], ARGV[1], ARGV[2])
return { position.at, position.paused and 1 or 0, held and held[2] or '' }
