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
