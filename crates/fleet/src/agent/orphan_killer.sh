# Outlives the process that started it just long enough to remove what that one leaves behind: the
# process groups of its browsers, and its directory.
#
# Standard input is a pipe from that process with one command a line: `keep GROUP` and
# `forget GROUP`. Its end means that the process is gone, whatever killed it, so the process needs
# no signal handler for this.
#
# Argument: the directory.

directory=$1 groups=

trap '' HUP INT TERM

while read -r command group; do
    case $command in
        keep)
            groups="$groups $group"
            ;;
        forget)
            rest=
            for known in $groups; do
                [ "$known" = "$group" ] || rest="$rest $known"
            done
            groups=$rest
            ;;
    esac
done

for group in $groups; do
    kill -s KILL -- "-$group" 2>/dev/null
done

# A dying process may still write while its files are being removed.
tries=0
while rm -rf "$directory" 2>/dev/null; [ -e "$directory" ] && [ "$tries" -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
