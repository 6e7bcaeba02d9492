-- Makes an item's keys, once; never touches one that has any. The item is PAUSED: opening it is the operator's.
-- Whether it may be warmed at all is the caller's (rule 33). README.md.
-- KEYS 1 meta  2 stock  3 buyers  4 pending  5 events
-- ARGV 1 epoch  2 total  3 starts_ms  4 ends_ms  5 expires_ms (13 digits each)  6 consumer group
-- 0 warmed  1 something of it is there already: nothing was changed
local call = redis.call
local time = call('TIME')
local tail = ' ' .. time[1] .. ' ' .. time[2] .. ' '
if call('EXISTS', unpack(KEYS)) > 0 then return '1 0 0' .. tail end -- EXISTS takes any type
for i = 3, 5 do
  if not ARGV[i]:find('^%d%d%d%d%d%d%d%d%d%d%d%d%d$') then return redis.error_reply('ERR times have 13 digits') end
end
if not ARGV[1]:find('^[1-9]%d*$') or not ARGV[2]:find('^%d+$') then
  return redis.error_reply('ERR epoch and total are whole numbers')
end
call('HSET', KEYS[1], 'epoch', ARGV[1], 'seq', '0', 'state', 'PAUSED', 'starts_ms', ARGV[3], 'ends_ms', ARGV[4],
  'total', ARGV[2], 'expires_ms', ARGV[5])
call('SET', KEYS[2], ARGV[2])
call('XGROUP', 'CREATE', KEYS[5], ARGV[6], '0', 'MKSTREAM')
for _, i in ipairs({ 1, 2, 5 }) do call('PEXPIREAT', KEYS[i], ARGV[5]) end -- buyers and pending: by reserve
return '0 ' .. ARGV[1] .. ' 0' .. tail
