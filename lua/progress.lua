-- PROCESSING for messages just received: only raises rank 1 to 2 of records that exist. Rule 6; README.md.
-- KEYS 1 meta  2… n reservations   ARGV n reservation ids
-- 0: how many were raised
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq')
local raise = {}
for i = 1, #ARGV do
  local r = redis.pcall('HMGET', KEYS[1 + i], 'reservation_id', 'rank') -- of another type: nothing to raise
  if r[1] == ARGV[i] and (not r[2] or r[2] == '1') then raise[#raise + 1] = KEYS[1 + i] end
end
for _, key in ipairs(raise) do call('HSET', key, 'state', 'PROCESSING', 'rank', '2') end
return '0 ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. ' ' .. time[1] .. ' ' .. time[2] .. ' ' .. #raise
