# A loop that turns, with launches of ordinary age, is fine.
run limit=30s
100ms 1 0s
100ms 50 6s
100ms 1 29s
----
fine
fine
fine

# A launch too old is a hang though the loop turns.
run limit=30s
100ms 1 30s
100ms 1 30.1s
----
fine
launch too old

# A loop that stands still is a hang though nothing is launched.
run limit=1s
500ms 0 0s
400ms 0 0s
200ms 0 0s
----
fine
fine
loop stands still

# One turn is enough.
run limit=1s
900ms 0 0s
100ms 1 0s
900ms 0 0s
200ms 0 0s
----
fine
fine
fine
loop stands still

# If nobody looked for long (this process or the machine slept), that time does not count.
run limit=1s
900ms 0 0s
1h 0 0s
900ms 0 0s
200ms 0 0s
----
fine
fine
fine
loop stands still
