-- Opens an item again, with what is free. Rules 7, 35, 36; README.md.
-- KEYS 1 meta  2 stock  3 buyers  4 pending  5 events  6 results
-- ARGV 1 item  2 epoch  3 step (behind the last of rebuild_restore)  4 total and 5 free units, counted together (an operator may
--      have changed the total since the begin)  6 consumer group
-- 0 it is   1 refused: also when it is open already
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq', 'rebuild', 'step', 'expires_ms', 'after')
local tail = ' ' .. time[1] .. ' ' .. time[2] .. ' '
if meta[1] ~= ARGV[2] or meta[3] ~= ARGV[2] or ARGV[3] ~= (meta[4] + 1) .. '' then
  return '1 ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. tail
end
if not ARGV[4]:find('^%d+$') or not ARGV[5]:find('^%d+$') then
  return redis.error_reply('ERR total and free units are whole numbers')
end
local events = call('TYPE', KEYS[5]).ok
if events ~= 'none' and events ~= 'stream' then return redis.error_reply('WRONGTYPE events is no stream') end
local seq = (meta[2] + 1) .. ''
if events == 'none' then call('XGROUP', 'CREATE', KEYS[5], ARGV[6], '0', 'MKSTREAM') end
call('SET', KEYS[2], ARGV[5])
call('HSET', KEYS[1], 'state', meta[6], 'seq', seq, 'total', ARGV[4])
call('HDEL', KEYS[1], 'rebuild', 'step', 'after')
for i = 1, 5 do call('PEXPIREAT', KEYS[i], meta[5]) end
call('PEXPIREAT', KEYS[6], meta[5], 'GT') -- what was told while the item was away did not know its end
call('PUBLISH', 'sec:news', ARGV[1] .. ' ' .. meta[1] .. ' ' .. seq)
return '0 ' .. meta[1] .. ' ' .. seq .. tail
