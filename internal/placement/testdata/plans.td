# One node: nothing is pinned or placed, whatever the number of frontends.
one-node
----
frontend 0: not pinned
device owner: not pinned
tables: anywhere
slabs: anywhere

one-node frontends=2 host
----
frontends 0-1: not pinned
device owner: not pinned
tables: anywhere
slabs: anywhere

# But what is asked for is done.
one-node placement=cpus=1 host
----
frontend 0: CPUs 1
device owner: CPUs 1
tables: anywhere
slabs: anywhere

one-node placement=node=0 tables=node=0
----
frontend 0: CPUs 0-1
device owner: CPUs 0-1
tables: node 0
slabs: anywhere

one-node tables=local-copies
----
check --tables-placement: got local-copies, want nodes with 20.00 GiB for the tables: node 0 has 7.77 GiB

one-node host
quota v2 1.0
----
frontend 0: not pinned
device owner: not pinned
tables: anywhere
slabs: anywhere
note: control groups leave the time of 1.00 CPUs, which 2 threads of the device use up at once: set --device-threads 1

# Two sockets.
xeon-6242-2s
----
frontend 0: not pinned
device owner: not pinned
tables: interleave over nodes 0-1
slabs: interleave over nodes 0-1
note: --frontends 1 is fewer than the 2 nodes 0-1: each frontend runs on all of them

xeon-6242-2s frontends=2
----
frontend 0: CPUs 0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30
frontend 1: CPUs 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31
device owner: not pinned
tables: interleave over nodes 0-1
slabs: interleave over nodes 0-1

xeon-6242-2s frontends=5 tables=local-copies gpu=1
----
frontend 0: CPUs 0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30, tables of node 0
frontend 1: CPUs 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31, tables of node 1
frontend 2: CPUs 0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30, tables of node 0
frontend 3: CPUs 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31, tables of node 1
frontend 4: CPUs 0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30, tables of node 0
device owner: CPUs 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31
tables: local-copies on nodes 0-1
slabs: node 1

xeon-6242-2s frontends=4 placement=node=1
----
frontends 0-3: CPUs 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31
device owner: CPUs 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31
tables: node 1
slabs: node 1

xeon-6242-2s frontends=4 placement=node=1 gib=90
----
frontends 0-3: CPUs 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31
device owner: CPUs 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31
tables: interleave over nodes 0-1
slabs: node 1
note: the tables are too large for node 1 alone: they are interleaved over the nodes 0-1

xeon-6242-2s frontends=4 placement=cpus=0-3,8 host
----
frontend 0: CPUs 0,2,8
frontend 1: CPUs 1,3
frontends 2-3: CPUs 0,2,8
device owner: CPUs 0-3,8
tables: interleave over nodes 0-1
slabs: interleave over nodes 0-1

xeon-6242-2s frontends=2 host
quota v1 3.5
----
frontend 0: CPUs 0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30
frontend 1: CPUs 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31
device owner: not pinned
tables: interleave over nodes 0-1
slabs: interleave over nodes 0-1
note: control groups leave the time of 3.50 CPUs, which 32 threads of the device use up at once: set --device-threads 4

# Only one socket of the two is allowed, and with it only its memory.
xeon-6242-2s frontends=2
cpuset v2 1,3,5,7
mems 1
----
frontends 0-1: not pinned
device owner: not pinned
tables: anywhere
slabs: anywhere

xeon-6242-2s frontends=4 owner=30-31 tables=interleave
----
frontend 0: CPUs 0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30
frontend 1: CPUs 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31
frontend 2: CPUs 0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30
frontend 3: CPUs 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31
device owner: CPUs 30-31
tables: interleave over nodes 0-1
slabs: interleave over nodes 0-1

# Four sockets.
xeon-4s frontends=8 gpu=2
----
frontend 0: CPUs 0-9,40-49
frontend 1: CPUs 10-19,50-59
frontend 2: CPUs 20-29,60-69
frontend 3: CPUs 30-39,70-79
frontend 4: CPUs 0-9,40-49
frontend 5: CPUs 10-19,50-59
frontend 6: CPUs 20-29,60-69
frontend 7: CPUs 30-39,70-79
device owner: CPUs 20-29,60-69
tables: interleave over nodes 0-3
slabs: node 2

xeon-4s frontends=8 placement=node=0,3 gpu=2 tables=local-copies
----
frontend 0: CPUs 0-9,40-49, tables of node 0
frontend 1: CPUs 30-39,70-79, tables of node 3
frontend 2: CPUs 0-9,40-49, tables of node 0
frontend 3: CPUs 30-39,70-79, tables of node 3
frontend 4: CPUs 0-9,40-49, tables of node 0
frontend 5: CPUs 30-39,70-79, tables of node 3
frontend 6: CPUs 0-9,40-49, tables of node 0
frontend 7: CPUs 30-39,70-79, tables of node 3
device owner: CPUs 0-9,30-49,70-79
tables: local-copies on nodes 0,3
slabs: node 2
note: the accelerator is on node 2, which has no CPU of --placement node=0,3: the device owner runs on another

# Sub-NUMA clusters.
xeon-6248-2s-snc frontends=4 tables=local-copies
----
frontend 0: CPUs 0-2,5-6,10-12,15-16,40-42,45-46,50-52,55-56, tables of node 0
frontend 1: CPUs 3-4,7-9,13-14,17-19,43-44,47-49,53-54,57-59, tables of node 1
frontend 2: CPUs 20-22,25-26,30-32,35-36,60-62,65-66,70-72,75-76, tables of node 2
frontend 3: CPUs 23-24,27-29,33-34,37-39,63-64,67-69,73-74,77-79, tables of node 3
device owner: not pinned
tables: local-copies on nodes 0-3
slabs: interleave over nodes 0-3

# Eight nodes, and accelerators on four of them.
dgx-a100 frontends=8 gpus
----
frontend 0: CPUs 0-15,128-143
frontend 1: CPUs 16-31,144-159
frontend 2: CPUs 32-47,160-175
frontend 3: CPUs 48-63,176-191
frontend 4: CPUs 64-79,192-207
frontend 5: CPUs 80-95,208-223
frontend 6: CPUs 96-111,224-239
frontend 7: CPUs 112-127,240-255
device owner: not pinned
tables: interleave over nodes 0-7
slabs: interleave over nodes 0-7
note: accelerators are on the nodes 1,3,5,7, so the node of the one in use is not known: name CPUs of that node with --owner-cpus

dgx-a100 frontends=4 gpu=3 placement=node=2,3
----
frontend 0: CPUs 32-47,160-175
frontend 1: CPUs 48-63,176-191
frontend 2: CPUs 32-47,160-175
frontend 3: CPUs 48-63,176-191
device owner: CPUs 48-63,176-191
tables: interleave over nodes 2-3
slabs: node 3

# Nodes without memory use that of their socket.
epyc-memoryless frontends=8 tables=local-copies gib=2
----
frontend 0: CPUs 0-7,64-71, tables of node 0
frontend 1: CPUs 8-15,72-79, tables of node 0
frontend 2: CPUs 16-23,80-87, tables of node 0
frontend 3: CPUs 24-31,88-95, tables of node 0
frontend 4: CPUs 32-39,96-103, tables of node 4
frontend 5: CPUs 40-47,104-111, tables of node 4
frontend 6: CPUs 48-55,112-119, tables of node 4
frontend 7: CPUs 56-63,120-127, tables of node 4
device owner: not pinned
tables: local-copies on nodes 0,4
slabs: interleave over nodes 0,4

epyc-memoryless frontends=2 placement=node=5
----
frontends 0-1: CPUs 40-47,104-111
device owner: CPUs 40-47,104-111
tables: node 4
slabs: node 4

# Gaps in the numbers, and nodes that are memory alone.
power9-gaps frontends=2 tables=local-copies
----
frontend 0: CPUs 0-63, tables of node 0
frontend 1: CPUs 64-127, tables of node 8
device owner: not pinned
tables: local-copies on nodes 0,8
slabs: interleave over nodes 0,8

power9-gaps tables=node=254
----
frontend 0: not pinned
device owner: not pinned
tables: node 254
slabs: interleave over nodes 0,8
note: --frontends 1 is fewer than the 2 nodes 0,8: each frontend runs on all of them

# Offline CPUs.
epyc-offline frontends=2
----
frontend 0: CPUs 0-62
frontend 1: CPUs 64-126
device owner: not pinned
tables: interleave over nodes 0-1
slabs: interleave over nodes 0-1

xeon-4s frontends=8
kernel without NUMA
----
frontends 0-7: not pinned
device owner: not pinned
tables: anywhere
slabs: anywhere
