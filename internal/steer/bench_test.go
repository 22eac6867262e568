package steer

import (
	"fmt"
	"testing"
	"time"
)

// What a choice costs a new connection, and what telling the program costs the supervisor.
func BenchmarkChoice(b *testing.B) {
	permitted(b)
	packet := make([]byte, 64)
	for _, policy := range []Policy{RoundRobin, LeastConnections} {
		for _, n := range []int{4, 64} {
			b.Run(fmt.Sprintf("%s/%d", policy, n), func(b *testing.B) {
				p, err := load(n, policy)
				if err != nil {
					b.Fatal(err)
				}
				defer p.close()
				const each = 1000
				var spent time.Duration
				rounds := 0
				for b.Loop() {
					_, one, err := p.code.Benchmark(packet, each, nil)
					if err != nil {
						b.Fatal(err)
					}
					spent += one
					rounds++
				}
				b.ReportMetric(float64(spent.Nanoseconds())/float64(rounds), "ns/choice")
			})
		}
	}
}

func BenchmarkRenew(b *testing.B) {
	for _, n := range []int{4, 64} {
		bank := newBank(b, n)
		classic, err := attachClassic(bank.sockets)
		if err != nil {
			b.Fatal(err)
		}
		rules := map[Mechanism]rule{ByClassic: classic}
		if p, err := attachProgram(bank.sockets, LeastConnections); err == nil {
			defer p.close()
			rules[ByEBPF] = p
		}
		bank.listen()
		for name, r := range rules {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				turn := 0
				for b.Loop() {
					turn++
					one := func(i int) Load { // another one has the fewest each time
						open := int64(8)
						if i == turn%n {
							open--
						}
						return Load{Accepted: 8, Open: open, Live: true}
					}
					if err := r.renew(time.Now(), one); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
