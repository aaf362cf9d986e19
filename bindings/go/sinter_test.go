package sinter

import (
	"errors"
	"strings"
	"sync"
	"testing"
)

func TestPreparesFromManyGoroutines(t *testing.T) {
	context, err := NewTarget("h200")
	if err != nil {
		t.Fatal(err)
	}
	chain, err := ParseChain("gemm_chain m=M n=256 k=64 l=64 act=relu layout=oi dtype=bf16")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			plan, err := context.Prepare(chain, 20)
			var failed *Error
			if errors.As(err, &failed) && failed.Status == Unavailable {
				t.Log(err) // neither a cached kernel nor a run-time compiler
			} else if err != nil {
				t.Error(err)
			} else if text, err := plan.Explain(); err != nil || !strings.Contains(text, "m<=32") {
				t.Error(text, err)
			}
		}()
	}
	group.Wait()
}

func TestErrorsCarryStatusAndMessage(t *testing.T) {
	if _, err := ParseChain("gemm_chain act=rleu"); err == nil || !strings.Contains(err.Error(), "INVALID_ARGUMENT: gemm_chain") {
		t.Fatal(err)
	}
}

func TestATuningSetIsNamedAndMustBeThere(t *testing.T) {
	context, err := NewTunedTarget("h200", "")
	if err != nil {
		t.Fatal(err)
	}
	if digest, err := context.TuningDigest(); err != nil || digest != [32]byte{} {
		t.Fatal(digest, err)
	}
	if _, err := NewTunedTarget("h200", "/no/such/set"); err == nil || !strings.Contains(err.Error(), "tuning set /no/such/set") {
		t.Fatal(err)
	}
}

func TestDeniedToolchainsAreCheckedAndCounted(t *testing.T) {
	bad, folder, denied := "everything", t.TempDir(), "12.9"
	if _, err := NewTargetWith("h200", Options{DenyToolchains: &bad}); err == nil || !strings.Contains(err.Error(), "context.deny_toolchains") {
		t.Fatal(err)
	}
	context, err := NewTargetWith("h200", Options{DenyToolchains: &denied, CacheDir: &folder, ModuleCacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := context.DenyToolchains("13.0,8f3a90c1d2"); err != nil {
		t.Fatal(err)
	}
	if err := context.DenyToolchains(bad); err == nil {
		t.Fatal("a list that is none was taken")
	}
	if stats, err := context.Stats(); err != nil || stats.Prepares != 0 || stats.ModulesLoaded != 0 {
		t.Fatal(stats, err)
	}
}
