-- Sets the leases of messages in hand, only for their owner: extend (idle 0) and retry later (idle = lease - delay).
-- JUSTID, so that it is no delivery. Scenario 20; section 6; README.md.
-- KEYS 1 events   ARGV 1 group  2 consumer  3 idle_ms  4… stream ids
-- A digit per id: 1 it took effect  0 it is not this consumer's (any more)
local call = redis.call
local result = {}
for i = 4, #ARGV do
  local held = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2])
  if held.err and held.err:find('NOGROUP', 1, true) then
    held = {} -- neither stream nor group: nothing is anybody's
  elseif held.err then
    return held
  end
  local took = held[1] and call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'IDLE', ARGV[3], 'JUSTID')[1]
  result[i - 3] = took and 1 or 0
end
return table.concat(result)
