//go:build faults && !ringsim

package shmring

import "rankd/internal/faults"

// at marks a sync point; a build with fault hooks performs there what RANKD_FAULTS asks for.
func at(p syncPoint) { faults.Hit(string(p)) }
