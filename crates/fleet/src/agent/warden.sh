# Outlives the process that started it just long enough to remove what that one leaves behind: the process groups of
# its browsers, and its directory.
#
# Standard input is a pipe from that process and carries orders, one a line: `keep GROUP` and `forget GROUP`. Its end
# means that the process is gone, by whatever death, and so the process needs no handler there.
#
# Argument: the directory.

directory=$1 kept=

trap '' HUP INT TERM

while read -r order group; do
    case $order in
        keep)
            kept="$kept $group"
            ;;
        forget)
            rest=
            for one in $kept; do
                [ "$one" = "$group" ] || rest="$rest $one"
            done
            kept=$rest
            ;;
    esac
done

for group in $kept; do
    kill -s KILL -- "-$group" 2>/dev/null
done

# Whoever is dying may still have written while its files were being removed.
tries=0
while rm -rf "$directory" 2>/dev/null; [ -e "$directory" ] && [ "$tries" -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
