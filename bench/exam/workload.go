package exam

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"rankd/model"
	"rankd/model/reference"
)

// Workloads: what the examples of a request have to do with each other.
const (
	Independent = "independent" // nothing: each brings all inputs
	SharedUser  = "shared-user" // they are candidates for one user, whose inputs the request brings once
)

// Workloads lists them.
func Workloads() []string { return []string{Independent, SharedUser} }

// SharedUserSizes are the candidates in a request of the workload SharedUser, unless others are asked for.
func SharedUserSizes() []int { return []int{128, 1000} }

// CandidatesPerUser is how many examples have the same user in the workload SharedUser, and so the most that a request can have.
const CandidatesPerUser = 1024

// UserTables is how many tables, from the manifest's first one on, are the user's in the workload SharedUser: half of them, rounded
// down. All dense inputs are the user's too. The rest is the candidates'.
func UserTables(m *model.Manifest) int { return len(m.Tables) / 2 }

// users deals examples out to users, each a run of them. Its zero value has none.
type users struct {
	count    int
	each     int // examples of a user; the last one may have more
	examples int
	tables   int // that are the user's
}

func newUsers(m *model.Manifest, o *Options) users {
	if o.Workload != SharedUser {
		return users{}
	}
	n := max(1, o.Examples/CandidatesPerUser)
	return users{count: n, each: o.Examples / n, examples: o.Examples, tables: UserTables(m)}
}

// checkUsers refuses a model in which either side would have nothing.
func checkUsers(m *model.Manifest, o *Options) error {
	if o.Workload == SharedUser && (len(m.Tables) == 0 || UserTables(m)+len(m.Dense) == 0) {
		return fmt.Errorf("workload: got %s for a model of %d tables and %d dense inputs, want inputs for the user and a table for the candidates",
			SharedUser, len(m.Tables), len(m.Dense))
	}
	return nil
}

// of is the user of an example.
func (u *users) of(example int) int { return min(example/u.each, u.count-1) }

// run is the examples of a user: the first one and how many.
func (u *users) run(user int) (first, n int) {
	if user == u.count-1 {
		return user * u.each, u.examples - user*u.each
	}
	return user * u.each, u.each
}

// draw draws the users' own inputs. What is the candidates' is drawn as well and not used.
func (u *users) draw(m *model.Manifest, o *Options, exponent float64) []reference.Example {
	list := make([]reference.Example, u.count)
	for i := range list {
		list[i] = drawExample(rand.New(rand.NewPCG(o.Seed, 1<<62|uint64(i))), m, exponent)
	}
	return list
}

// join gives an example its user's inputs.
func (u *users) join(x *reference.Example, user *reference.Example) {
	copy(x.Bags[:u.tables], user.Bags)
	x.Dense = user.Dense
}

// deal chooses the examples of n requests. Users take turns; a request has no candidate twice, and a user's candidates come about as
// often as each other.
func (u *users) deal(n, rows int, rng *rand.Rand) ([][]int32, error) {
	if _, most := u.run(0); rows > most {
		return nil, fmt.Errorf("make requests: examples a request: got %d, want at most %d, the candidates of a user", rows, most)
	}
	picks := make([][]int32, n)
	orders := make([][]int, u.count)
	for i := range picks {
		user := i % u.count
		first, candidates := u.run(user)
		if len(orders[user]) < rows {
			orders[user] = rng.Perm(candidates)
		}
		for _, k := range orders[user][:rows] {
			picks[i] = append(picks[i], int32(first+k))
		}
		orders[user] = orders[user][rows:]
	}
	return picks, nil
}

// deal chooses the examples of n requests of the workload Independent, each about as often as any other.
func deal(examples, n, rows int, rng *rand.Rand) [][]int32 {
	picks := make([][]int32, n)
	var order []int
	for i := range picks {
		for range rows {
			if len(order) == 0 {
				order = rng.Perm(examples)
			}
			picks[i] = append(picks[i], int32(order[0]))
			order = order[1:]
		}
	}
	return picks
}

// once cuts the examples of a request down to one where all of them have the same.
func once(shared bool, picks []int32) []int32 {
	if shared {
		return picks[:1]
	}
	return picks
}

// Describe says in a sentence what the requests of the workload are.
func (s *Set) Describe() string {
	if s.users.count == 0 {
		return "Every example of a request brings all inputs of the model."
	}
	ids := ""
	if all, fixed := s.m.IDColumns(); fixed {
		n := 0
		for i := range s.users.tables {
			n += s.m.Tables[i].Hotness
		}
		ids = fmt.Sprintf(", %d of the %d ids of a row,", n, all)
	}
	return fmt.Sprintf("A request is one user with many candidates: the user's inputs, which are the first %d of the %d tables%s and the dense features, come with "+
		"one row for the whole request; those of the other tables with a row for each candidate. Examples are rows that are scored.", s.users.tables, len(s.m.Tables), ids)
}

// checkForm refuses what cannot be written: one tensor has one number of rows.
func (o *Options) checkForm(fixed bool) error {
	switch {
	case o.Form != Packed:
	case o.Workload == SharedUser:
		return errors.New("form: got packed for the workload shared-user, want tables: the user's ids have another number of rows than the candidates'")
	case !fixed:
		return errors.New("form: got packed for a model with ragged tables, want tables")
	}
	return nil
}
