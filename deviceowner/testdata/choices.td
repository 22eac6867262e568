bucket of=(1,2,4,8) rows=(1,2,3,4,5,7,8)
----
1->1 2->2 3->4 4->4 5->8 7->8 8->8

bucket of=(8) rows=(1,8)
----
1->8 8->8

bucket of=(3,100,256) rows=(3,4,100,101,256)
----
3->3 4->100 100->100 101->256 256->256

# Every actor has a processor: one frontend and the loop.
spin cpus=2 procs=2 frontends=1
----
50µs

spin cpus=2 procs=2 frontends=2
----
0s

spin cpus=8 procs=8 frontends=8
----
0s

spin cpus=9 procs=8 frontends=8
----
50µs

# One goroutine at a time: the loop would spin while the executor's callback waits for the processor.
spin cpus=9 procs=1 frontends=8
----
0s

slabs batching=continuous depth=2
----
6

slabs batching=fused depth=1
----
5

slabs batching=off depth=2
----
16

# The ring has at most 64.
slabs batching=off depth=16
----
64

# A model's buckets on devices of their own.
buckets executor=pjrt platform=cuda model=(1,128,256,4096)
----
[1 128 256 4096]

buckets executor=sim platform=cpu model=(1,128,256,4096)
----
[1 128 256 4096]

# The processor has no use for large batches, but needs one bucket.
buckets executor=pjrt platform=cpu model=(1,128,256,4096)
----
[1 128]

buckets executor=pjrt platform=cpu model=(1,100,129)
----
[1 100]

buckets executor=pjrt platform=cpu model=(256,4096)
----
[256]

buckets executor=pjrt platform=cpu model=(1,128,256,4096) flag=(1,4096)
----
[1 4096]
