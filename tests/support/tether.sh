#!/bin/bash
# tether.sh SIGNAL COMMAND…: runs a server for as long as somebody holds this script's standard input open, then sends it
# SIGNAL: a test that is killed leaves nothing running. Prints the server's pid, and nothing else: what the server writes
# goes to standard error. Ends with its exit status.
signal=$1
shift
exec 3<&0
"$@" </dev/null 3<&- >&2 &
server=$!
echo $server
exec >&2
{ cat <&3 >/dev/null; kill -s "$signal" $server; } 2>/dev/null &
watcher=$!
exec 3<&-
wait $server
status=$?
kill $watcher 2>/dev/null
exit $status
