# A slab with rows. "since" is the time since its first row.
slab max-delay=1ms capacity=8
0 rows since 0s device free
1 rows since 0s device free
1 rows since 0s device busy
7 rows since 999us device free
7 rows since 999us device busy
7 rows since 1ms device free
7 rows since 1ms device busy
7 rows since 1h device busy
8 rows since 0s device free
8 rows since 0s device busy
----
0 rows since 0s device free: continuous wait linger wait fused wait off wait
1 rows since 0s device free: continuous close linger wait 1ms fused wait 1ms off close
1 rows since 0s device busy: continuous wait linger wait 1ms fused wait 1ms off close
7 rows since 999us device free: continuous close linger wait 1µs fused wait 1µs off close
7 rows since 999us device busy: continuous wait linger wait 1µs fused wait 1µs off close
7 rows since 1ms device free: continuous close linger close fused close off close
7 rows since 1ms device busy: continuous wait linger wait fused close off close
7 rows since 1h device busy: continuous wait linger wait fused close off close
8 rows since 0s device free: continuous close linger close fused close off close
8 rows since 0s device busy: continuous close linger close fused close off close

# Without a delay linger is continuous, and fused closes at the first row.
slab max-delay=0s capacity=8
0 rows since 0s device free
1 rows since 0s device free
1 rows since 0s device busy
8 rows since 0s device busy
----
0 rows since 0s device free: continuous wait linger wait fused wait off wait
1 rows since 0s device free: continuous close linger close fused close off close
1 rows since 0s device busy: continuous wait linger wait fused close off close
8 rows since 0s device busy: continuous close linger close fused close off close

# A capacity of one row: no policy ever waits.
slab max-delay=1ms capacity=1
0 rows since 0s device free
1 rows since 0s device busy
----
0 rows since 0s device free: continuous wait linger wait fused wait off wait
1 rows since 0s device busy: continuous close linger close fused close off close
