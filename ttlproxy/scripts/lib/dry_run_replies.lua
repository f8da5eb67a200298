-- The replies to writes in a dry run, where a script needs another reply than a number.
-- GIVES: replies
local replies = {
  HINCRBYFLOAT = '0',
  LMOVE = '',
  LPOP = '',
  LTRIM = { ok = 'OK' },
  RPOP = '',
  RPOPLPUSH = '',
  SPOP = { set = { [''] = true } },
  SWAPDB = { ok = 'OK' },
  ZPOPMAX = { '', '0' },
  ZPOPMIN = { '', '0' },
}
