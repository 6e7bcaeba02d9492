-- Leases an instance number for order ids. Rule 38; README.md.
-- KEYS 1 slot   ARGV 1 nonce  2 highest_ms  3 ttl_ms (0 gives it back)
-- 0 held: floor_ms, the highest id time of whoever held it before   1 somebody else's until: ms
-- The hash has no expiry: whoever comes next, whenever, must learn how far the ids of the one before may have gone.
local call = redis.call
local time = call('TIME')
local tail = ' 0 0 ' .. time[1] .. ' ' .. time[2] .. ' '
local now = time[1] .. ('00000' .. time[2]):sub(-6, -4)
local lease = call('HMGET', KEYS[1], 'nonce', 'highest_ms', 'until_ms', 'floor_ms')
local highest, floor = lease[2] or '0', lease[4] or '0'
if lease[1] ~= ARGV[1] then
  if lease[1] and tonumber(now) < tonumber(lease[3]) then return 1 .. tail .. lease[3] end
  if tonumber(highest) > tonumber(floor) then floor = highest end
  highest = '0'
end
if tonumber(ARGV[2]) > tonumber(highest) then highest = ARGV[2] end
call('HSET', KEYS[1], 'nonce', ARGV[1], 'highest_ms', highest, 'until_ms', string.format('%.0f', now + ARGV[3]),
  'floor_ms', floor)
return 0 .. tail .. floor
