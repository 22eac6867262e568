package e2e

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"rankd/internal/testutil"
	"rankd/model"
	"rankd/model/demo"
)

// bundles are made once a test process. They lie beside the command that is tested and are removed with it.
var bundles struct {
	mu   sync.Mutex
	made map[string]*model.Bundle
}

func bundle(t testing.TB, name string, create func(ctx context.Context, dir string) (*model.Bundle, error)) *model.Bundle {
	t.Helper()
	bundles.mu.Lock()
	defer bundles.mu.Unlock()
	if b := bundles.made[name]; b != nil {
		return b
	}
	b, err := create(context.Background(), filepath.Join(filepath.Dir(testutil.Binary(t)), name))
	if err != nil {
		t.Fatalf("make bundle %s: %v", name, err)
	}
	if bundles.made == nil {
		bundles.made = map[string]*model.Bundle{}
	}
	bundles.made[name] = b
	return b
}

// testModel has 4 tables of 1000 rows and dim 8, row r of table t filled with 10000·t + r, dense [B,13], batches up to 256.
func testModel(t testing.TB) *model.Bundle {
	t.Helper()
	return bundle(t, "test-model", func(ctx context.Context, dir string) (*model.Bundle, error) {
		return demo.CreateTest(ctx, demo.TestOptions{Dir: dir})
	})
}

// demoModel has the tables and inputs of the DLRM-DCNv2, with at most maxVocab rows a table, and a small network.
func demoModel(t testing.TB, name string, maxVocab int64) *model.Bundle {
	t.Helper()
	return bundle(t, name, func(ctx context.Context, dir string) (*model.Bundle, error) {
		return demo.Create(ctx, demo.Options{Dir: dir, Seed: 1, MaxVocab: maxVocab, Small: true, MaxBatch: 512})
	})
}

// smallDemo is the demo model for requests.
func smallDemo(t testing.TB) *model.Bundle { t.Helper(); return demoModel(t, "demo-small", 1000) }
