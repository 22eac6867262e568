package execache

import (
	"testing"

	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }
