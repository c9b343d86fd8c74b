"""The other side of the wake-ups: what a process with @queuert/redis does, 0.11 or, in words with `-new`, 0.12.

    queuert.py PORT PREFIX notify TYPE COUNT    announces jobs with a hint; prints the hint's id
    queuert.py PORT PREFIX notify-plain TYPE    announces jobs as 0.12 does, by their type alone
    queuert.py PORT PREFIX listen TYPE WORKERS      has idle workers of a type; prints what they hear
    queuert.py PORT PREFIX listen-new TYPE WORKERS  the same with 0.12

A listener prints `ready`, then `query HINT` for every worker that may look and `skip HINT` for every other,
`chain ID` and `lost ID`. What a version does not understand it ignores.
"""

import signal
import sys
import uuid

import redis

SET_AND_PUBLISH = """
redis.call('SET', KEYS[1], ARGV[1], 'EX', 60)
redis.call('PUBLISH', ARGV[2], ARGV[3])
"""

DECREMENT = """
local result = redis.call('DECR', KEYS[1])
if result >= 0 then
return 1
end
redis.call('SET', KEYS[1], '0')
return 0
"""


# A missing hint means that a worker may look.
DECREMENT_OF_TYPE = """
local left = redis.call('GET', KEYS[1])
if not left then return 1 end
if tonumber(left) <= 0 then return 0 end
redis.call('DECR', KEYS[1])
return 1
"""


def say(*words):
    print(*words, flush=True)


def notify_job_scheduled(client, prefix, type_name, count):
    hint = str(uuid.uuid4())
    key, channel = f"{prefix}:hint:{hint}", f"{prefix}:sched"
    client.eval(SET_AND_PUBLISH, 1, key, count, channel, f"{hint}:{type_name}")
    say(hint)


def on_scheduled(client, prefix, payload, type_name, workers):
    hint, _, scheduled = payload.partition(":")
    if scheduled == type_name:
        for _ in range(workers):
            may_query = client.eval(DECREMENT, 1, f"{prefix}:hint:{hint}")
            say("query" if may_query else "skip", hint)


def on_scheduled_new(client, prefix, payload, type_name, workers):
    if payload == type_name:
        for _ in range(workers):
            may_query = client.eval(DECREMENT_OF_TYPE, 1, f"{prefix}:hint:{type_name}")
            say("query" if may_query else "skip", type_name)


def listen(client, prefix, type_name, workers, on_scheduled):
    subscription = client.pubsub(ignore_subscribe_messages=True)
    subscription.subscribe(f"{prefix}:sched", f"{prefix}:chainc", f"{prefix}:owls")
    # The first answer is the confirmation of the first channel; the others are on the same connection.
    while subscription.get_message(timeout=1.0) is not None:
        pass
    say("ready")
    # One that hears nothing ends, and whoever waits for its words reads the end.
    signal.alarm(120)
    for message in subscription.listen():
        channel, payload = message["channel"], message["data"]
        if channel == f"{prefix}:sched":
            on_scheduled(client, prefix, payload, type_name, workers)
        elif channel == f"{prefix}:chainc":
            say("chain", payload)
        else:
            say("lost", payload)


def main():
    port, prefix, command, type_name = sys.argv[1:5]
    client = redis.Redis(port=int(port), decode_responses=True)
    if command == "notify":
        notify_job_scheduled(client, prefix, type_name, int(sys.argv[5]))
    elif command == "notify-plain":
        client.publish(f"{prefix}:sched", type_name)
    else:
        heard = on_scheduled_new if command == "listen-new" else on_scheduled
        listen(client, prefix, type_name, int(sys.argv[5]), heard)


main()
