-- Whether an item is in the catalogue. A catalogue that is missing altogether means that Redis lost something, not that
-- there is no such item (rule 34). README.md.
-- KEYS 1 sec:items   ARGV 1 item
-- 0 listed, or there is no catalogue   1 not listed
local call = redis.call
local time = call('TIME')
local listed = call('SISMEMBER', KEYS[1], ARGV[1]) == 1 or call('EXISTS', KEYS[1]) == 0
return (listed and 0 or 1) .. ' 0 0 ' .. time[1] .. ' ' .. time[2] .. ' '
