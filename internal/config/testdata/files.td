# What is right is read.

file
# a comment
on: true
n64: -3
u32: 0
name: "with # and: colon"
mode: sim
wait: 250ms
limit: 1.5MiB
cpus: [0, 2]
labels:
  - a
  - "b,c"
threads: 2
share: 0.5
----
# Sample
on: true                                        # FILE:2
n64: -3                                         # FILE:3
u32: 0                                          # FILE:4
name: 'with # and: colon'                       # FILE:5
mode: sim                                       # FILE:6
wait: 250ms                                     # FILE:7
limit: 1536KiB                                  # FILE:8
cpus: [0, 2]                                    # FILE:9
labels: ["a", "b,c"]                            # FILE:10
threads: 2                                      # FILE:13
share: 0.5                                      # FILE:14

file
limit: 4096
wait: 0.5s
share: 1
cpus: []
name: ""
----
# Sample
name: ""                                        # FILE:5
wait: 500ms                                     # FILE:2
limit: 4KiB                                     # FILE:1
cpus: []                                        # FILE:4
share: 1                                        # FILE:3

file
----

file
# nothing but a comment
----

file
---
n64: 1
...
----
# Sample
n64: 1                                          # FILE:2

# Wrong types.

file
on: yes
n64: "3"
u32: 1.0
name: 8500
mode: off
wait: 10
limit: 16MB
cpus: 1,2
labels: [a, 1]
threads: [1]
share: half
----
FILE:1: on: got "yes", want true or false
FILE:2: n64: got "3", want a whole number (at least -10)
FILE:3: u32: got 1.0, want a whole number (at most 100)
FILE:4: name: got 8500, want text: write "8500"
FILE:6: wait: got 10, want a duration such as 250us, 10ms or 2m30s (1ms..1h)
FILE:7: limit: got "16MB", want a whole number of bytes such as 4096, 16MiB or 1.5GiB
FILE:8: cpus: got "1,2", want a list of whole numbers such as [1, 4, 16] (at least 0)
FILE:9: labels: item 2: got 1, want a list such as [a, b]
FILE:10: threads: got a list, want a whole number (1..64)
FILE:11: share: got "half", want a number (0..1)
FILE:5: mode: got "off", want pjrt or sim
idle: --u32 (FILE:3) has no effect: it needs --mode sim, which is off
# Sample
on: false                                       # FILE:1
n64: 0                                          # FILE:2
u32: 0                                          # FILE:3
name: ""                                        # FILE:4
mode: "off"                                     # FILE:5
wait: 1s                                        # FILE:6
limit: 4KiB                                     # FILE:7
cpus: []                                        # FILE:8
labels: []                                      # FILE:9
threads: 1                                      # FILE:10
share: 0                                        # FILE:11

file
on:
n64: ~
name:
cpus: [1, [2]]
labels: ["a", ""]
wait: {a: 1}
----
FILE:1: on: got nothing, want true or false: leave the line out for the default
FILE:2: n64: got nothing, want a whole number (at least -10): leave the line out for the default
FILE:3: name: got nothing, want text: write "" for none, or leave the line out for the default
FILE:4: cpus: item 2: got a list, want a list of whole numbers such as [1, 4, 16] (at least 0)
FILE:5: labels: item 2: got an empty text, want none like that
FILE:6: wait: got a group of settings, want a duration such as 250us, 10ms or 2m30s (1ms..1h)
# Sample
on: false                                       # FILE:1
n64: 0                                          # FILE:2
name: ""                                        # FILE:3
wait: 1s                                        # FILE:6
cpus: []                                        # FILE:4
labels: []                                      # FILE:5

file
name: 1.10
n64: 010
u32: 1_000
cpus: [0x10]
limit: 99999999999999999999
threads: 99999999999999999999
share: .nan
wait: 12:30
----
FILE:1: name: got 1.10, want text: write "1.10"
FILE:2: n64: got 010, want a whole number (at least -10), in plain digits
FILE:3: u32: got 1_000, want a whole number (at most 100), in plain digits
FILE:4: cpus: item 1: got 0x10, want a list of whole numbers such as [1, 4, 16] (at least 0)
FILE:5: limit: got 99999999999999999999, want bytes such as 4096, 16MiB or 1.5GiB (1KiB..1GiB)
FILE:6: threads: got 99999999999999999999, want a whole number (1..64)
FILE:7: share: got ".nan", want a number
FILE:8: wait: got "12:30", want a duration such as 250us, 10ms or 2m30s
# Sample
n64: 0                                          # FILE:2
u32: 0                                          # FILE:3
name: ""                                        # FILE:1
wait: 1s                                        # FILE:8
limit: 4KiB                                     # FILE:5
cpus: []                                        # FILE:4
threads: 1                                      # FILE:6
share: 0                                        # FILE:7

# Values out of bounds.

file
n64: -11
wait: 2h
cpus: [-1]
threads: 65
----
FILE:1: n64: got -11, want at least -10
FILE:2: wait: got 2h, want 1ms..1h
FILE:3: cpus: got -1, want at least 0
FILE:4: threads: got 65, want 1..64
# Sample
n64: -11                                        # FILE:1
wait: 2h                                        # FILE:2
cpus: [-1]                                      # FILE:3
threads: 65                                     # FILE:4

# Keys.

file
n_64: 1
Names: x
moed: sim
server:
  n64: 1
bogus: 1
secret-fd: 1
config: other.yaml
5: 1
[a]: 1
----
FILE:1: n_64: no setting has this name, want n64?
FILE:2: Names: no setting has this name, want name?
FILE:3: moed: no setting has this name, want mode?
FILE:4: server: no setting has this name; settings are not grouped: write them at the left margin
FILE:6: bogus: no setting has this name; "rankd config example" lists them
FILE:7: secret-fd: no setting has this name; "rankd config example" lists them
FILE:8: config: can't be set in a file, want it as a flag or in the environment
FILE:9: got 5 as a key, want the name of a setting
FILE:10: got a list as a key, want the name of a setting

file
n64: 1
u32: 2
n64: 3
n64: 4
----
FILE:3: n64: stands here and in line 1, want it once
FILE:4: n64: stands here and in line 1, want it once
# Sample
n64: 1                                          # FILE:1
u32: 2                                          # FILE:2

file
mode: pjrt
u32: 3
----
idle: --u32 (FILE:2) has no effect: it needs --mode sim, which is pjrt
# Sample
u32: 3                                          # FILE:2
mode: pjrt                                      # FILE:1

# Not YAML, or not settings.

file
n64: 1
\tu32: 2
----
FILE:2: this is no YAML: found a tab character that violates indentation (while scanning a plain scalar that begins in line 1); indent with spaces, not with tabs

file
n64: 1
just words
u32: 2
----
FILE:3: this is no YAML: could not find expected ':' (while scanning a simple key that begins in line 2)

file
cpus: [1, 2
n64: 1
----
FILE:2: this is no YAML: did not find expected ',' or ']' (while parsing a flow sequence that begins in line 1)

file
name: "open
n64: 1
----
FILE:2: this is no YAML: found unexpected end of stream (while scanning a quoted scalar that begins in line 1)

file
name: a: b
----
FILE:1: this is no YAML: mapping values are not allowed in this context

file
- n64
----
FILE:1: got a list, want settings, one a line, such as "frontends: 4"

file
text
----
FILE:1: got "text", want settings, one a line, such as "frontends: 4"

file
n64: 1
---
u32: 2
----
FILE:2: got a second document, want one: remove the line "---"
# Sample
n64: 1                                          # FILE:1

file
n64: *other
----
FILE:1: this is no YAML: unknown anchor 'other' referenced

file
n64: &a 1
u32: *a
<<: {name: x}
----
FILE:3: got "<<" of type !!merge as a key, want the name of a setting
FILE:2: u32: got a reference to *a, want a whole number (at most 100)
# Sample
n64: 1                                          # FILE:1
u32: 0                                          # FILE:2

file
name: a\0b
----
FILE:1: this is no YAML: control characters are not allowed (value: 0)

file
n64: !!str 3
name: !mine x
----
FILE:1: n64: got "3", want a whole number (at least -10)
FILE:2: name: got "x" of type !mine, want text: write "x"
# Sample
n64: 0                                          # FILE:1
name: ""                                        # FILE:2
