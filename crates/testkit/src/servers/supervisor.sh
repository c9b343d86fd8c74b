# Keeps one server and its directory, and outlives whoever asked for them just long enough to remove both.
#
# Standard input is a pipe from the test process and carries orders; its end means that the process is gone, by
# whatever death, and so it needs no handler there. The server is this shell's child and is reaped only when
# ordered: until then its pid cannot be given to another process, so a signal never hits a stranger.
#
# Arguments: the directory, the signal that ends the server, and the server's command line.

directory=$1 farewell=$2
shift 2
pid=

# A paused server makes this an orphaned process group with a stopped member, which the kernel hangs up.
trap '' HUP INT TERM

while read -r order; do
    case $order in
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
    kill "-$farewell" "$pid"
    wait "$pid"
fi 2>/dev/null
rm -rf "$directory"
