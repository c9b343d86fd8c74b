# Supervises one server and its directory, and removes both when the test process has ended.
#
# Standard input is a pipe from the test process and carries commands. It closes when that process
# ends, however it ends, so the test process needs no handler. The server is a child of this shell,
# which reaps it only on command. Until then its pid is not reused, so a signal never reaches another
# process.
#
# Arguments: the directory, the stop signal of the server, and the command line of the server.

directory=$1 stop_signal=$2
shift 2
pid=

# A paused server makes this an orphaned process group with a stopped member, which gets a SIGHUP.
trap '' HUP INT TERM

while read -r command; do
    case $command in
        start)
            "$@" </dev/null >>"$directory/log" 2>&1 &
            pid=$!
            echo "$pid"
            ;;
        reap)
            wait "$pid" 2>/dev/null
            pid=
            echo reaped
            ;;
    esac
done

if [ -n "$pid" ]; then
    kill -CONT "$pid"
    kill "-$stop_signal" "$pid"
    wait "$pid"
fi 2>/dev/null
rm -rf "$directory"
