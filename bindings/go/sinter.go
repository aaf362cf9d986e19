// Package sinter prepares chains of GPU operators through libsinter. CGO_CFLAGS and CGO_LDFLAGS name its folders, or
// pkg-config's sinter.pc does.
package sinter

/*
#cgo LDFLAGS: -lsinter
#include <stdlib.h>
#include "sinter/sinter_experimental.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Error is a failed call: the status of sinter.h and one line.
type Error struct {
	Status  int32
	Message string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s", C.GoString(C.sinter_status_name(C.sinter_status(e.Status))), e.Message)
}

// Unavailable is the status of a missing GPU, driver or run-time compiler.
const Unavailable = C.SINTER_UNAVAILABLE

func check(status C.sinter_status, err *C.sinter_error) error {
	if status == C.SINTER_OK {
		return nil
	}
	defer C.sinter_error_release(err)
	return &Error{int32(status), C.GoString(C.sinter_error_get_message(err))}
}

// Context is a device or a target. Safe for concurrent use.
type Context struct{ p *C.sinter_context }

// Options of a context; a zero field follows its environment variable.
type Options struct {
	TuningSet        *string // a file; "" chooses by prediction alone
	CacheDir         *string // "" is memory only
	CacheMaxBytes    uint64
	DenyToolchains   *string // NVRTC versions and build ids, separated by commas
	ModuleCacheBytes uint64
}

// NewTarget opens a built-in model without a GPU; plans are chosen by the environment's tuning set, if any.
func NewTarget(target string) (*Context, error) { return NewTargetWith(target, Options{}) }

// NewTunedTarget is NewTarget choosing by the measurements in a file; "" chooses by prediction alone.
func NewTunedTarget(target, tuningSet string) (*Context, error) {
	return NewTargetWith(target, Options{TuningSet: &tuningSet})
}

// NewTargetWith is NewTarget with options, which win over the environment.
func NewTargetWith(target string, given Options) (*Context, error) {
	options := (*C.sinter_context_options)(C.calloc(1, C.sizeof_sinter_context_options))
	defer C.free(unsafe.Pointer(options))
	options.struct_size = C.sizeof_sinter_context_options
	set := func(field **C.char, value *string) {
		if value != nil {
			*field = C.CString(*value)
		}
	}
	set(&options.target, &target)
	set(&options.tuning_set, given.TuningSet)
	set(&options.cache_dir, given.CacheDir)
	set(&options.deny_toolchains, given.DenyToolchains)
	for _, text := range []*C.char{options.target, options.tuning_set, options.cache_dir, options.deny_toolchains} {
		defer C.free(unsafe.Pointer(text))
	}
	options.cache_max_bytes = C.uint64_t(given.CacheMaxBytes)
	options.module_cache_bytes = C.uint64_t(given.ModuleCacheBytes)
	var context Context
	var err *C.sinter_error
	if err := check(C.sinter_context_create(options, &context.p, &err), err); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(&context, func(c *Context) { C.sinter_context_release(c.p) })
	return &context, nil
}

// TuningDigest names the measurements that plans are chosen by; all zero without any.
func (c *Context) TuningDigest() (digest [32]byte, err error) {
	defer runtime.KeepAlive(c)
	var failed *C.sinter_error
	err = check(C.sinter_context_get_tuning_digest(c.p, (*C.uint8_t)(unsafe.Pointer(&digest[0])), &failed), failed)
	return digest, err
}

// DenyToolchains refuses kernels by the compiler that made them, from now on.
func (c *Context) DenyToolchains(entries string) error {
	defer runtime.KeepAlive(c)
	text := C.CString(entries)
	defer C.free(unsafe.Pointer(text))
	var failed *C.sinter_error
	return check(C.sinter_context_deny_toolchains(c.p, text, &failed), failed)
}

// Stats are counters since the context was made: what came from the cache, why not, and what that saved.
type Stats struct {
	Prepares, KernelHits, KernelsCompiled, Launches, CacheMisses, CacheOtherFormat, CacheOtherToolchain uint64
	CompileSecondsSaved, GPUTimeSavedUs                                                                 float64
	ModulesLoaded, ModuleBytes, ModulesUnloaded                                                         uint64
}

// Stats reads the counters.
func (c *Context) Stats() (Stats, error) {
	defer runtime.KeepAlive(c)
	var s C.sinter_stats
	s.struct_size = C.sizeof_sinter_stats
	var failed *C.sinter_error
	if err := check(C.sinter_context_get_stats(c.p, &s, &failed), failed); err != nil {
		return Stats{}, err
	}
	return Stats{
		uint64(s.prepares), uint64(s.kernel_hits), uint64(s.kernels_compiled), uint64(s.launches), uint64(s.cache_misses),
		uint64(s.cache_other_format), uint64(s.cache_other_toolchain),
		float64(s.compile_seconds_saved), float64(s.gpu_time_saved_us),
		uint64(s.modules_loaded), uint64(s.module_bytes), uint64(s.modules_unloaded),
	}, nil
}

// Chain is a finished operator DAG. Safe for concurrent use.
type Chain struct{ p *C.sinter_chain }

// ParseChain reads one line of text, such as "softmax rows=8 cols=64 scale=1 dtype=bf16".
func ParseChain(line string) (*Chain, error) {
	text := C.CString(line)
	defer C.free(unsafe.Pointer(text))
	var chain Chain
	var err *C.sinter_error
	if err := check(C.sinter_x_chain_from_text(text, &chain.p, nil, nil, &err), err); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(&chain, func(c *Chain) { C.sinter_chain_release(c.p) })
	return &chain, nil
}

// Plan is a prepared chain. Safe for concurrent use.
type Plan struct{ p *C.sinter_plan }

// Prepare finds or builds the plan that serves m rows.
func (c *Context) Prepare(chain *Chain, m int64) (*Plan, error) {
	var plan Plan
	var err *C.sinter_error
	status := C.sinter_prepare(c.p, chain.p, C.int64_t(m), nil, &plan.p, &err)
	runtime.KeepAlive(c)
	runtime.KeepAlive(chain)
	if err := check(status, err); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(&plan, func(p *Plan) { C.sinter_plan_release(p.p) })
	return &plan, nil
}

// Explain is one screen of text.
func (p *Plan) Explain() (string, error) {
	defer runtime.KeepAlive(p)
	var size C.size_t
	var err *C.sinter_error
	C.sinter_plan_explain(p.p, 0, nil, &size, nil)
	text := (*C.char)(C.malloc(size))
	defer C.free(unsafe.Pointer(text))
	if err := check(C.sinter_plan_explain(p.p, size, text, nil, &err), err); err != nil {
		return "", err
	}
	return C.GoString(text), nil
}
