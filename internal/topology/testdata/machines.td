one-node
----
cpus 0-1 of 0-1, 1 packages, 2 cores
node 0 cpus "0-1", 6400 of 7956 MiB, memory near 0, distance 10
cpu 1 package 0 core 1 siblings 1 node 0
allowed 0-1 on nodes 0, memory of 0, quota 0.00

one-node
kernel without NUMA
----
cpus 0-1 of 0-1, 1 packages, 2 cores
node 0 cpus "0-1", 6400 of 7956 MiB, memory near 0, distance 10
cpu 1 package 0 core 1 siblings 1 node 0
allowed 0-1 on nodes 0, memory of 0, quota 0.00

xeon-6242-2s
----
cpus 0-31 of 0-31, 2 packages, 32 cores
node 0 cpus "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30", 89212 of 94957 MiB, memory near 0, distance 10 21
node 1 cpus "1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31", 91811 of 96732 MiB, memory near 1, distance 21 10
cpu 31 package 1 core 15 siblings 31 node 1
allowed 0-31 on nodes 0-1, memory of 0-1, quota 0.00

xeon-6248-2s-snc
----
cpus 0-79 of 0-79, 2 packages, 40 cores
node 0 cpus "0-2,5-6,10-12,15-16,40-42,45-46,50-52,55-56", 45982 of 46893 MiB, memory near 0, distance 10 11 21 21
node 1 cpus "3-4,7-9,13-14,17-19,43-44,47-49,53-54,57-59", 48235 of 48379 MiB, memory near 1, distance 11 10 21 21
node 2 cpus "20-22,25-26,30-32,35-36,60-62,65-66,70-72,75-76", 48022 of 48353 MiB, memory near 2, distance 21 21 10 11
node 3 cpus "23-24,27-29,33-34,37-39,63-64,67-69,73-74,77-79", 48196 of 48378 MiB, memory near 3, distance 21 21 11 10
cpu 79 package 1 core 39 siblings 39,79 node 3
allowed 0-79 on nodes 0-3, memory of 0-3, quota 0.00

xeon-4s
----
cpus 0-79 of 0-79, 4 packages, 40 cores
node 0 cpus "0-9,40-49", 257602 of 257943 MiB, memory near 0, distance 10 20 20 20
node 1 cpus "10-19,50-59", 257619 of 258043 MiB, memory near 1, distance 20 10 20 20
node 2 cpus "20-29,60-69", 257879 of 258043 MiB, memory near 2, distance 20 20 10 20
node 3 cpus "30-39,70-79", 257823 of 258043 MiB, memory near 3, distance 20 20 20 10
cpu 79 package 3 core 39 siblings 39,79 node 3
allowed 0-79 on nodes 0-3, memory of 0-3, quota 0.00

dgx-a100
----
cpus 0-255 of 0-255, 2 packages, 128 cores
node 0 cpus "0-15,128-143", 61000 of 64302 MiB, memory near 0, distance 10 12 12 12 32 32 32 32
node 1 cpus "16-31,144-159", 62000 of 64502 MiB, memory near 1, distance 12 10 12 12 32 32 32 32
node 2 cpus "32-47,160-175", 62000 of 64502 MiB, memory near 2, distance 12 12 10 12 32 32 32 32
node 3 cpus "48-63,176-191", 61272 of 64447 MiB, memory near 3, distance 12 12 12 10 32 32 32 32
node 4 cpus "64-79,192-207", 52763 of 64502 MiB, memory near 4, distance 32 32 32 32 10 12 12 12
node 5 cpus "80-95,208-223", 54458 of 64502 MiB, memory near 5, distance 32 32 32 32 12 10 12 12
node 6 cpus "96-111,224-239", 57521 of 64502 MiB, memory near 6, distance 32 32 32 32 12 12 10 12
node 7 cpus "112-127,240-255", 55638 of 64492 MiB, memory near 7, distance 32 32 32 32 12 12 12 10
cpu 255 package 1 core 127 siblings 127,255 node 7
allowed 0-255 on nodes 0-7, memory of 0-7, quota 0.00
accelerators [{0000:07:00.0 3} {0000:0f:00.0 3} {0000:47:00.0 1} {0000:4e:00.0 1} {0000:87:00.0 7} {0000:90:00.0 7} {0000:b7:00.0 5} {0000:bd:00.0 5}] on nodes 1,3,5,7

epyc-memoryless
----
cpus 0-127 of 0-127, 2 packages, 64 cores
node 0 cpus "0-7,64-71", 3837 of 20028 MiB, memory near 0, distance 10 16 16 16 32 32 32 32
node 1 cpus "8-15,72-79", 0 of 0 MiB, memory near 0, distance 16 10 16 16 32 32 32 32
node 2 cpus "16-23,80-87", 0 of 0 MiB, memory near 0, distance 16 16 10 16 32 32 32 32
node 3 cpus "24-31,88-95", 0 of 0 MiB, memory near 0, distance 16 16 16 10 32 32 32 32
node 4 cpus "32-39,96-103", 21309 of 31391 MiB, memory near 4, distance 32 32 32 32 10 16 16 16
node 5 cpus "40-47,104-111", 0 of 0 MiB, memory near 4, distance 32 32 32 32 16 10 16 16
node 6 cpus "48-55,112-119", 0 of 0 MiB, memory near 4, distance 32 32 32 32 16 16 10 16
node 7 cpus "56-63,120-127", 0 of 0 MiB, memory near 4, distance 32 32 32 32 16 16 16 10
cpu 127 package 1 core 63 siblings 63,127 node 7
allowed 0-127 on nodes 0-7, memory of 0-7, quota 0.00

power9-gaps
----
cpus 0-127 of 0-127, 2 packages, 32 cores
node 0 cpus "0-63", 239932 of 257716 MiB, memory near 0, distance 10 40 80 80 80 80
node 8 cpus "64-127", 244415 of 261728 MiB, memory near 8, distance 40 10 80 80 80 80
node 252 cpus "", 30807 of 32256 MiB, memory near 252, distance 80 80 10 80 80 80
node 253 cpus "", 30823 of 32256 MiB, memory near 253, distance 80 80 80 10 80 80
node 254 cpus "", 30808 of 32256 MiB, memory near 254, distance 80 80 80 80 10 80
node 255 cpus "", 30823 of 32256 MiB, memory near 255, distance 80 80 80 80 80 10
cpu 127 package 8 core 15 siblings 124-127 node 8
allowed 0-127 on nodes 0,8, memory of 0,8,252-255, quota 0.00

epyc-offline
----
cpus 0-62,64-126 of 0-255, 2 packages, 126 cores
node 0 cpus "0-62", 250000 of 257800 MiB, memory near 0, distance 10 32
node 1 cpus "64-126", 250000 of 258000 MiB, memory near 1, distance 32 10
cpu 126 package 1 core 126 siblings 126 node 1
allowed 0-62,64-126 on nodes 0-1, memory of 0-1, quota 0.00

# An affinity that reaches beyond the cpuset, and one that names CPUs that are offline.
epyc-offline
affinity 60-67,255
cpuset v2 0-65
----
cpus 0-62,64-126 of 0-255, 2 packages, 126 cores
node 0 cpus "0-62", 250000 of 257800 MiB, memory near 0, distance 10 32
node 1 cpus "64-126", 250000 of 258000 MiB, memory near 1, distance 32 10
cpu 126 package 1 core 126 siblings 126 node 1
allowed 60-62,64-65 on nodes 0-1, memory of 0-1, quota 0.00
cpuset 0-65 of /sys/fs/cgroup/unified/rankd

xeon-4s
cpuset v1 10-29
mems 1-2
quota v1 1.5
----
cpus 0-79 of 0-79, 4 packages, 40 cores
node 0 cpus "0-9,40-49", 257602 of 257943 MiB, memory near 1, distance 10 20 20 20
node 1 cpus "10-19,50-59", 257619 of 258043 MiB, memory near 1, distance 20 10 20 20
node 2 cpus "20-29,60-69", 257879 of 258043 MiB, memory near 2, distance 20 20 10 20
node 3 cpus "30-39,70-79", 257823 of 258043 MiB, memory near 1, distance 20 20 20 10
cpu 79 package 3 core 39 siblings 39,79 node 3
allowed 10-29 on nodes 1-2, memory of 1-2, quota 1.50
cpuset 10-29 of /sys/fs/cgroup/cpuset/rankd

xeon-4s
quota v2 12
----
cpus 0-79 of 0-79, 4 packages, 40 cores
node 0 cpus "0-9,40-49", 257602 of 257943 MiB, memory near 0, distance 10 20 20 20
node 1 cpus "10-19,50-59", 257619 of 258043 MiB, memory near 1, distance 20 10 20 20
node 2 cpus "20-29,60-69", 257879 of 258043 MiB, memory near 2, distance 20 20 10 20
node 3 cpus "30-39,70-79", 257823 of 258043 MiB, memory near 3, distance 20 20 20 10
cpu 79 package 3 core 39 siblings 39,79 node 3
allowed 0-79 on nodes 0-3, memory of 0-3, quota 12.00

xeon-4s
kernel without NUMA
affinity 3-4
----
cpus 0-79 of 0-79, 4 packages, 40 cores
node 0 cpus "0-79", 1030923 of 1032072 MiB, memory near 0, distance 10
cpu 79 package 3 core 39 siblings 39,79 node 0
allowed 3-4 on nodes 0, memory of 0, quota 0.00

# Huge pages that are reserved and free.
xeon-6242-2s
pool 1 4096
----
cpus 0-31 of 0-31, 2 packages, 32 cores
node 0 cpus "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30", 89212 of 94957 MiB, memory near 0, distance 10 21
node 1 cpus "1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31", 91811 of 96732 MiB, memory near 1, distance 21 10
node 1 has 4096 MiB of reserved huge pages free
cpu 31 package 1 core 15 siblings 31 node 1
allowed 0-31 on nodes 0-1, memory of 0-1, quota 0.00
