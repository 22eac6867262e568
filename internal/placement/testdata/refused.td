xeon-4s placement=node
----
check --placement: got "node", want auto, node=N[,M] or cpus=LIST

xeon-4s placement=all
----
check --placement: got "all", want auto, node=N[,M] or cpus=LIST

xeon-4s placement=node=
----
check --placement: got "node=", want nodes such as node=0 or node=0-1

xeon-4s placement=node=x
----
check --placement: got "node=x", want nodes such as node=0 or node=0-1

xeon-4s placement=node=4
----
check --placement: got node 4, want some of 0-3: there are no others

xeon-4s placement=cpus=
----
check --placement: got "cpus=", want CPUs such as cpus=0-3,8

xeon-4s placement=cpus=3-1
----
check --placement: got "cpus=3-1", want CPUs such as cpus=0-3,8

xeon-4s placement=cpus=78-81
----
check --placement: got CPU 80-81, want some of 0-79: there are no others

epyc-offline placement=cpus=62-64
----
check --placement: got CPU 63, which is offline, want some of 0-62,64-126

epyc-offline placement=cpus=256
----
check --placement: got CPU 256, want some of 0-62,64-126: there are no others

xeon-4s placement=cpus=9-12
cpuset v1 10-29
----
check --placement: got CPU 9, want CPUs of the control group's cpuset, which are 10-29 (/sys/fs/cgroup/cpuset/rankd)

xeon-4s placement=cpus=9-12
affinity 0-9
----
check --placement: got CPU 10-12, want CPUs of this process's affinity, which are 0-9 (see taskset)

xeon-4s placement=node=0
cpuset v2 10-29
----
check --placement: got node 0 with CPUs 0-9,40-49, want nodes with CPUs of the control group's cpuset, which are 10-29 (/sys/fs/cgroup/unified/rankd)

xeon-4s placement=cpus=0-1 frontends=3
----
check --frontends: got 3, want at most 2: --placement cpus=0-1 has no more CPUs

xeon-4s owner=90
----
check --owner-cpus: got CPU 90, want some of 0-79: there are no others

power9-gaps placement=node=252
----
check --placement: got node 252, which has no CPUs, want some of 0,8

xeon-4s tables=nodes
----
check --tables-placement: got "nodes", want auto, interleave, local-copies or node=N

xeon-4s tables=node=0,1
----
check --tables-placement: got "node=0,1", want one node such as node=0

xeon-4s tables=node=4
----
check --tables-placement: got node 4, want one of 0-3: there are no others

epyc-memoryless tables=node=1
----
check --tables-placement: got node 1, which has no memory, want one of 0,4

xeon-4s tables=node=1
mems 0
----
check --tables-placement: got node 1, want one of 0: this process may have no other memory (its cpuset)

xeon-4s tables=local-copies frontends=2
----
check --tables-placement: got local-copies with --frontends 2, want at least 4 frontends: one for each of the nodes 0-3 that --placement auto uses

xeon-4s tables=local-copies frontends=4 gib=300
----
check --tables-placement: got local-copies, want nodes with 300.00 GiB for the tables: node 0 has 251.90 GiB

# All that is wrong is told at once.
xeon-4s tables=node=7 placement=cpus=0-1 frontends=3 owner=80-81
----
check --frontends: got 3, want at most 2: --placement cpus=0-1 has no more CPUs
check --owner-cpus: got CPU 80-81, want some of 0-79: there are no others
check --tables-placement: got node 7, want one of 0-3: there are no others

xeon-4s tables=everywhere placement=everywhere
----
check --placement: got "everywhere", want auto, node=N[,M] or cpus=LIST
check --tables-placement: got "everywhere", want auto, interleave, local-copies or node=N
