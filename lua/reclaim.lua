-- Takes over messages whose lease ended, with their real delivery counts. Section 6; README.md.
-- KEYS 1 events   ARGV 1 group  2 consumer  3 lease_ms  4 max
-- pending in all; ms until the next of the oldest 64 leases ends (the lease, if none is known); {id, deliveries, fields}…
local call = redis.call
local lease = tonumber(ARGV[3])
local expired = call('XPENDING', KEYS[1], ARGV[1], 'IDLE', ARGV[3], '-', '+', ARGV[4])
local ids, deliveries, taken = {}, {}, {}
for i, e in ipairs(expired) do
  ids[i], deliveries[e[1]] = e[1], e[4] + 1
end
if ids[1] then
  -- An entry that is not in the stream any more (its key expired, somebody deleted it) leaves the pending list here.
  for i, m in ipairs(call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], unpack(ids))) do
    taken[i] = { m[1], deliveries[m[1]], m[2] }
  end
end
local wait = lease
for _, e in ipairs(call('XPENDING', KEYS[1], ARGV[1], '-', '+', 64)) do
  if lease - e[3] < wait then wait = lease - e[3] end
end
return { call('XPENDING', KEYS[1], ARGV[1])[1], wait, taken }
